"""Make text and ids safe for stores, tokenizers and prompts: the one place at the door."""

from __future__ import annotations

import re
import reprlib
import unicodedata

from dualmem.errors import InvalidUser

INJECTED_OPEN = "<dualmem-memories>"
INJECTED_CLOSE = "</dualmem-memories>"
"""What stands between these was put into a prompt by memory itself, and is never learned from again."""

MAX_LABEL = 200
"""Longest speaker's name, in characters."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NEWLINE = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff]")
# Tag characters are drawn as nothing, and a model can read what is written with them; the flags of England, Scotland
# and Wales are the one use that they have.
_UNSEEN = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f)|[\U000e0000-\U000e007f]")
_FENCE = re.compile(f"{re.escape(INJECTED_OPEN)}|{re.escape(INJECTED_CLOSE)}")

_SPECIAL_TOKEN = re.compile(
    # <|endoftext|>, <|im_end|>, and the full-width form of DeepSeek.
    "<(?=[|\uff5c][^\\s<>]{1,64}[|\uff5c]>"
    # SentencePiece, Gemma, T5, fill-in-the-middle and tool-call tokens.
    r"|/?(?:s|unk|pad|mask|bos|eos|cls|sep|start_of_turn|end_of_turn|start_of_image|end_of_image"
    r"|fim_prefix|fim_middle|fim_suffix|extra_id_\d{1,3}|tool_call|tool_response)>"
    # Llama 2's system fence, and our own.
    r"|</?SYS>>|/?dualmem-memories>)"
    # Mistral's and BERT's.
    r"|\[(?=/?(?:INST|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|CLS|SEP|MASK|PAD|UNK)\])"
)

# The standard library knows no emoji property. These are the blocks that hold emoji, without the arrows and
# geometric shapes that are pictures only in emoji presentation.
_EMOJI = re.compile("[\u2300-\u23ff\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff]")

# Letters by their category, but drawn as nothing.
_INVISIBLE_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")


def clean_text(text: str) -> str:
    """Return `text` as a store, a tokenizer and a prompt can take it, still readable.

    - Lone surrogates become U+FFFD; a pair of them becomes the character that it stands for.
    - Every kind of line end becomes a newline; other control characters and byte order marks go, but the tab.
    - Text in Unicode's tag characters, which nobody sees, goes.
    - Unicode is put into NFC.
    - The text of a special token gets a space after its first character, `<|im_end|>` becomes `< |im_end|>`,
      `[INST]` becomes `[ INST]`: a tokenizer no longer takes it for the token, a person reads it as before.
      Our own fence markers are treated alike, so that no text can close the fence it is quoted in.
    - White space at both ends goes.

    Cleaning twice is cleaning once.
    """
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _CONTROL.sub("", _NEWLINE.sub("\n", text))
    text = _UNSEEN.sub(r"\1", text)
    # NFC first: it can turn another character into the letter of a token.
    text = unicodedata.normalize("NFC", text)
    return _SPECIAL_TOKEN.sub(lambda match: f"{match.group()} ", text).strip()


def clean_label(value: object) -> str | None:
    """Return a name or an id as one clean line, or None if there is nothing in it.

    Integers and floats are taken as their decimal text: exports write ids either way.
    """
    if isinstance(value, str):
        return " ".join(clean_text(value).split()) or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _decimal(value)
    return None


def is_blank(text: str) -> bool:
    """Tell whether nothing is said in `text`: no letter or digit of any script, and no emoji.

    White space, punctuation, currency and mathematical signs alone are blank (":)", "...", "€"); an emoji is
    not, as it can be the whole answer.
    """
    return not any(
        (unicodedata.category(character)[0] in "LN" and character not in _INVISIBLE_LETTERS) or _EMOJI.match(character)
        for character in text
    )


def clean_user_id(value: object) -> str:
    """Return the id that a user's memories are kept under.

    Any non-blank string is one (an e-mail address, dots, emoji) and any integer, as its decimal text. White
    space at both ends does not count, and Unicode is put into NFC. Nothing else is changed: an id with
    characters that would have to be removed is refused, as two users could become one by it.

    Raises:
        InvalidUser: It is blank, holds control characters or lone surrogates, or is no string or integer.
    """
    text: str | None = None
    if isinstance(value, str):
        text = unicodedata.normalize("NFC", str(value)).strip()
        if any(unicodedata.category(character) in {"Cc", "Cs"} for character in text):
            message = f"the user id {value!r} holds control characters or lone surrogates; remove them"
            raise InvalidUser(message)
    elif isinstance(value, int) and not isinstance(value, bool):
        text = _decimal(value)
        if text is None:
            message = "the user id is an integer of more digits than can be written; pass a shorter one"
            raise InvalidUser(message)
    if text is None or all(unicodedata.category(character)[0] in "ZC" for character in text):
        message = (
            f"a user id must be a non-blank string or an integer, not {reprlib.repr(value)}; "
            "pass what your application knows the person by"
        )
        raise InvalidUser(message)
    return text


def split_injected(text: str) -> tuple[str, str]:
    """Split `text` into what was said and what stood between our fence markers.

    Fences may be nested; one that is never closed runs to the end, as cut text must not be learned from
    either. A closing marker without an opening one is dropped.
    """
    said: list[str] = []
    injected: list[str] = []
    depth = position = 0
    for marker in _FENCE.finditer(text):
        (injected if depth else said).append(text[position : marker.start()])
        position = marker.end()
        depth = depth + 1 if marker.group() == INJECTED_OPEN else max(0, depth - 1)
    (injected if depth else said).append(text[position:])
    return "".join(said), "".join(injected)


def _decimal(number: float) -> str | None:
    try:
        return str(number)
    except ValueError:  # more digits than Python writes (sys.set_int_max_str_digits)
        return None
