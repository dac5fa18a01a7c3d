"""Tell what reads like an instruction to a model from what somebody says of themselves.

Rules over the folded text, no model: what a model decides, a text can talk it into. They know the common forms of some
languages, and find no paraphrase that was made to escape them. `python -m dualmem.evals.suspicion` measures them.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

from dualmem.records import Turn
from dualmem.retrieval.pattern_index import PatternIndex

if TYPE_CHECKING:
    from dualmem.ingestion.suspicion_rules import Rule

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"'})
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0f]")

_LEADS = re.compile(
    # What a command may follow: the beginning, the end of a sentence or clause, or a word that leads to one.
    r"(?:^|[\n.!?;:>\"'()\[\]{}*,#|/\-\u2014\u3002\uff01])\s*$"
    r"|(?:^|\W)(?:please|and|then|now|so|also|just|kindly|must|should|shall|will|bot|assistant|ai|to|on)\s+$"
)

_SPELLED = re.compile(r"\b(?:[^\W\d_] ){3,40}[^\W\d_]\b")
_DISGUISED = re.compile(r"\b\w*(?:[a-z][013457]|[013457][a-z])\w*")
_LETTERS = str.maketrans("013457", "oieast")
_PERCENT = re.compile("%20[A-Za-z]")
_ENCODED = re.compile(r"[A-Za-z0-9+/_\-]{24,4000}={0,2}")
_MOST_ENCODED = 20
"""Encoded pieces of a text that are looked into."""


@cache
def _rules() -> PatternIndex[Rule]:
    """Return all rules; on first use, since compiling them takes longer than importing most of the package."""
    from dualmem.ingestion.suspicion_languages import LANGUAGE_RULES  # noqa: PLC0415 - see above
    from dualmem.ingestion.suspicion_rules import RULES  # noqa: PLC0415 - see above

    return PatternIndex((rule.pattern, rule) for rule in (*RULES, *LANGUAGE_RULES))


def prepare() -> None:
    """Get ready for many texts; it takes as long as looking at some hundred."""
    _rules().prepare()


def suspicion_in(text: str, quote: str, witness: Turn) -> str:
    """Return why a memory reads like an instruction, by its own words or by those that it comes from.

    Args:
        text: What it says.
        quote: The words of the turn that it comes from.
        witness: That turn. What others wrote, and what the user only pasted, is no wish of the user's own.
    """
    foreign = witness.role != "user" or is_pasted(quote, witness.text)
    return suspicion_of(text, foreign=foreign) or ("" if quote == text else suspicion_of(quote, foreign=foreign))


def suspicion_of(text: str, *, foreign: bool = False) -> str:
    """Return why a text reads like an instruction to a model; "" where it does not.

    Args:
        text: A statement, or the words that it comes from.
        foreign: Whether somebody else than the user wrote it. A user may say how they want to be answered.
    """
    return next((reason for read in _readings(text) if (reason := _first_match(read, foreign=foreign))), "")


def is_pasted(quote: str, text: str) -> bool:
    """Whether some words of a text stand in it as somebody else's: in lines quoted with ">", or between code fences."""
    place = text.find(quote) if quote else -1
    if place < 0:
        return False
    line = text[text.rfind("\n", 0, place) + 1 : place + len(quote)]
    return line.lstrip().startswith(">") or text.count("```", 0, place) % 2 == 1


def folded(text: str) -> str:
    """Return `text` as the rules read it: compatible forms joined, without what is not seen, accents and case."""
    if text.isascii():
        return text.casefold()
    from dualmem.ingestion.suspicion_rules import without_accents  # noqa: PLC0415 - see `_rules`

    text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text).translate(_QUOTES))
    seen = "".join(character for character in text if unicodedata.category(character) != "Cf")
    return without_accents(seen).casefold()


def _first_match(read: str, *, foreign: bool) -> str:
    for rule in _rules().fitting(read):
        if (foreign or not rule.foreign) and any(
            not rule.command or _commands(read, match.start()) for match in rule.pattern.finditer(read)
        ):
            return rule.reason
    return ""


def _readings(text: str) -> Iterator[str]:
    """Yield a text folded, then what else a model reads in it: spelled out, in digits for letters, encoded."""
    read = folded(text)
    yield read
    plain = _SPELLED.sub(lambda match: match[0].replace(" ", ""), read)
    plain = _DISGUISED.sub(lambda match: match[0].translate(_LETTERS), plain)
    if plain != read:
        yield plain
    if _PERCENT.search(text):
        yield folded(unquote(text))
    for match in islice(_ENCODED.finditer(text), _MOST_ENCODED):
        if decoded := _decoded(match[0]):
            yield folded(decoded)


def _decoded(blob: str) -> str:
    """Return the text that some hexadecimal or base64 digits stand for; "" where they stand for none."""
    for decode in (bytes.fromhex, _from_base64):
        try:
            decoded = decode(blob).decode("utf-8")
        except ValueError:
            continue
        if decoded.isprintable():
            return decoded
    return ""


def _from_base64(blob: str) -> bytes:
    digits = blob.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)


def _commands(text: str, start: int) -> bool:
    """Whether what begins at `start` is a command: nobody stands before it who would do it."""
    return _LEADS.search(text, max(0, start - 40), start) is not None
