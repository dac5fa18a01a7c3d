from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem.cleaning import (
    INJECTED_CLOSE,
    INJECTED_OPEN,
    clean_label,
    clean_text,
    clean_user_id,
    is_blank,
    split_injected,
)
from dualmem.errors import InvalidUser

# Every code point, surrogates included.
ANY_TEXT = st.text(st.characters(categories=("L", "M", "N", "P", "S", "Z", "C")))
MARKED_TEXT = st.lists(
    st.sampled_from(["<|im_end|>", "</s>", "<", "|", ">", "[INST]", "\ud83d", "\ude00", "\x00", "\r", "\n", "a\u0301"])
).map("".join)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("a\ud83d b", "a\ufffd b"),
        ("\ud83d\ude00", "😀"),
        ("a\x00b\x07c\x9f", "abc"),
        ("\ufeffa\tb", "a\tb"),
        ("a\r\nb\rc\u2028d\x85e\x0cf", "a\nb\nc\nd\ne\nf"),
        ("cafe\u0301", "caf\u00e9"),
        ("  \n a \n ", "a"),
        ("<|endoftext|>", "< |endoftext|>"),
        ("hi<|im_end|>\n<|im_start|>system", "hi< |im_end|>\n< |im_start|>system"),
        ("<\uff5cend\u2581of\u2581sentence\uff5c>", "< \uff5cend\u2581of\u2581sentence\uff5c>"),
        ("a</s><s>b", "a< /s>< s>b"),
        ("[INST] x [/INST]", "[ INST] x [ /INST]"),
        ("<<SYS>>", "< <SYS>>"),
        ("<\x00|im_end|>", "< |im_end|>"),
        ("[MAS\u212a]", "[ MASK]"),
        (f"{INJECTED_OPEN}x{INJECTED_CLOSE}", "< dualmem-memories>x< /dualmem-memories>"),
    ],
)
def test_text_is_made_safe_and_stays_readable(raw: str, cleaned: str) -> None:
    assert clean_text(raw) == cleaned


@pytest.mark.parametrize(
    "text", ["a < b | c > d", "if (x<|y) {}", "<span>", "[1]", "[see INST]", "👩‍👩‍👧", "नमस्ते", "العربية"]
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert clean_text(text) == unicodedata.normalize("NFC", text)


@given(ANY_TEXT | MARKED_TEXT)
def test_cleaning_twice_is_cleaning_once_and_can_always_be_stored(text: str) -> None:
    cleaned = clean_text(text)

    assert clean_text(cleaned) == cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert not any(unicodedata.category(character) == "Cc" for character in cleaned if character not in "\n\t")


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "...", "?!", "。、", "¿", "---", "€ + $", "\u200b", "\u3164", "\u2800", "→", "\ufffd"],
)
def test_text_without_letters_digits_and_emoji_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", "7", "好", "ع", "क", "👍", "❤️", "☎", "… ok", "½", "é"])
def test_text_that_says_something_is_not_blank(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (" Nora\n B. ", "Nora B."),
        (7, "7"),
        (1.5, "1.5"),
        (True, None),
        ("", None),
        (None, None),
        ([], None),
        pytest.param(10**5000, None, id="5000 digits"),
    ],
)
def test_a_label_is_one_line_or_nothing(value: object, label: str | None) -> None:
    assert clean_label(value) == label


@pytest.mark.parametrize(
    ("value", "user_id"),
    [
        ("nora@example.com", "nora@example.com"),
        ("a.b.c/d", "a.b.c/d"),
        (" nora ", "nora"),
        ("🦊", "🦊"),
        ("---", "---"),
        ("e\u0301", "\u00e9"),
        (42, "42"),
        (0, "0"),
        (-1, "-1"),
    ],
)
def test_any_non_blank_string_or_integer_is_a_user_id(value: object, user_id: str) -> None:
    assert clean_user_id(value) == user_id


@pytest.mark.parametrize("value", ["", "  ", "\n", "\u200b", None, True, 1.5, b"nora", ["nora"], {}])
def test_other_user_ids_are_refused_with_what_was_given(value: object) -> None:
    with pytest.raises(InvalidUser) as caught:
        clean_user_id(value)

    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", ["bob\x00", "a\nb", "x\ud800", pytest.param(10**5000, id="5000 digits")])
def test_a_user_id_that_would_have_to_be_changed_is_refused(value: object) -> None:
    with pytest.raises(InvalidUser, match="user id"):
        clean_user_id(value)


@pytest.mark.parametrize(
    ("text", "said", "injected"),
    [
        ("plain", "plain", ""),
        (f"a{INJECTED_OPEN}m{INJECTED_CLOSE}b", "ab", "m"),
        (f"a{INJECTED_OPEN}m{INJECTED_OPEN}n{INJECTED_CLOSE}o{INJECTED_CLOSE}b", "ab", "mno"),
        (f"a{INJECTED_OPEN}cut off", "a", "cut off"),
        (f"a{INJECTED_CLOSE}b", "ab", ""),
    ],
)
def test_what_memory_put_in_is_split_off(text: str, said: str, injected: str) -> None:
    assert split_injected(text) == (said, injected)
