"""The key of an encrypted store: how it is given, and how it wraps the key that the data is encrypted with.

A store has a data key of its own, made at random with the store and kept in it, wrapped by the user's key. Another
user's key can so take the place of the old one by one write, whatever the store's size. Needs the extra `encrypt`.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dualmem.errors import ConfigurationError, KeyMismatch

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from dualmem.config import Settings

SCHEME: Final = "AES-256-GCM"

KEY_BYTES: Final = 32

NONCE_BYTES: Final = 12
"""What NIST SP 800-38D recommends for GCM. A random nonce is good for 2^32 texts under one data key."""

HOW_TO_SET: Final = "DUALMEM_ENCRYPTION_KEY, or DUALMEM_ENCRYPTION_KEY_FILE for a file that holds it"


def aes_gcm(key: bytes) -> AESGCM:
    """Return the cipher of a key.

    Raises:
        ConfigurationError: The extra `encrypt` is not installed.
    """
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - only for encrypted stores
    except ImportError as error:
        message = 'encryption needs a package that is not installed; install it with: pip install "dualmem[encrypt]"'
        raise ConfigurationError(message) from error
    return AESGCM(key)


def derived(key: bytes, purpose: str) -> bytes:
    """Return a key of its own for `purpose`: HKDF-Expand to one block (RFC 5869), since `key` is uniformly random."""
    return hmac.digest(key, f"dualmem {purpose}\x01".encode(), "sha256")


class EncryptionKey:
    """A user's key: 32 random bytes. It never shows itself.

    Args:
        text: The key in base64 (standard or URL-safe) or in hexadecimal.

    Raises:
        ConfigurationError: It is no such key. The message does not show it.
    """

    def __init__(self, text: str) -> None:
        raw = _decoded("".join(text.split()))
        if raw is None or len(raw) != KEY_BYTES:
            message = (
                f"the encryption key is not {KEY_BYTES} bytes in base64 or hexadecimal; "
                f"`dualmem new-key FILE` makes one"
            )
            raise ConfigurationError(message)
        self._wrapping = derived(raw, "wrapping")
        self.id: Final = derived(raw, "id")[:8].hex()
        """What tells keys apart; it says nothing else about the key."""

    def __repr__(self) -> str:
        """Return which key it is, without the key."""
        return f"EncryptionKey(id={self.id!r})"

    def new_mark(self) -> dict[str, Any]:
        """Return what a new store keeps: the scheme, which key it is, and a fresh data key, wrapped."""
        return self.mark_of(secrets.token_bytes(KEY_BYTES))

    def mark_of(self, data_key: bytes) -> dict[str, Any]:
        """Return what a store keeps of `data_key` under this key."""
        nonce = os.urandom(NONCE_BYTES)
        wrapped = nonce + aes_gcm(self._wrapping).encrypt(nonce, data_key, SCHEME.encode())
        return {"scheme": SCHEME, "key": self.id, "data_key": base64.b64encode(wrapped).decode()}

    def data_key_of(self, mark: dict[str, Any], place: str) -> bytes:
        """Return the data key that a store keeps.

        Args:
            mark: What the store keeps.
            place: The store, in words.

        Raises:
            KeyMismatch: It was wrapped by another key, or in a way that is not known here.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - only for encrypted stores

        cipher = aes_gcm(self._wrapping)
        if mark.get("scheme") != SCHEME:
            message = f"{place} is encrypted by {mark.get('scheme')!r}, which this version of dualmem does not know"
            raise KeyMismatch(message)
        if mark.get("key") != self.id:
            message = (
                f"{place} is encrypted with another key: its key has the id {mark.get('key')!r}, the one that is set "
                f"{self.id!r}; set the right one ({HOW_TO_SET})"
            )
            raise KeyMismatch(message)
        try:
            wrapped = base64.b64decode(str(mark.get("data_key")))
            return cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], SCHEME.encode())
        except (ValueError, InvalidTag) as error:
            message = f"the data key of {place} is damaged; restore the store from a backup"
            raise KeyMismatch(message) from error


def _decoded(text: str) -> bytes | None:
    try:
        if len(text) == 2 * KEY_BYTES:
            return bytes.fromhex(text)
        standard = text.rstrip("=").translate(str.maketrans("-_", "+/"))
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except ValueError:
        return None


def key_of(settings: Settings) -> EncryptionKey | None:
    """Return the key that is set, None where none is.

    Raises:
        ConfigurationError: It is no key, the file cannot be read, or both settings are set.
    """
    given, file = settings.encryption_key, settings.encryption_key_file
    if given is not None and file is not None:
        message = "both DUALMEM_ENCRYPTION_KEY and DUALMEM_ENCRYPTION_KEY_FILE are set; unset one of them"
        raise ConfigurationError(message)
    if given is not None:
        return EncryptionKey(given.get_secret_value())
    return None if file is None else read_key(file)


def read_key(file: str | Path) -> EncryptionKey:
    """Return the key that a file holds.

    Raises:
        ConfigurationError: The file cannot be read, or holds no key.
    """
    path = Path(file).expanduser()
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        message = f"the encryption key in {path} cannot be read: {reason}"
        raise ConfigurationError(message) from error
    try:
        return EncryptionKey(text)
    except ConfigurationError as error:
        message = f"{path}: {error}"
        raise ConfigurationError(message) from error


def write_new_key(file: str | Path) -> EncryptionKey:
    """Write a new key to a file that only its owner can read.

    Raises:
        ConfigurationError: The file exists, or cannot be written.
    """
    path = Path(file).expanduser()
    text = base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
            out.write(f"{text}\n")
    except FileExistsError as error:
        message = f"{path} exists; a key is never overwritten, since what it encrypts would be lost"
        raise ConfigurationError(message) from error
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise ConfigurationError(message) from error
    return EncryptionKey(text)
