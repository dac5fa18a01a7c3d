from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmem.retrieval.text import (
    count_tokens,
    find_quote,
    normalise,
    similarity,
    sparse,
    sparse_query,
    tokens,
)
from dualmem.stores.backend import Sparse

TEXTS = st.text(max_size=80) | st.text(
    st.characters(codec=None, categories=["Cs", "Cc", "Mn", "Lo", "Nd"]), max_size=20
)


def score(question: str, document: str) -> float:
    """Return what a database would before IDF: the product of both vectors."""
    asked = sparse_query(tokens(question))
    held = sparse(tokens(document), average_length=10.0)
    weights = dict(zip(held.indices, held.values, strict=True))
    return sum(weights.get(index, 0.0) * value for index, value in zip(asked.indices, asked.values, strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Caroline's dogs were running", ["carolin", "dog", "run"]),
        ("CAROLINE\u2019S \uff24\uff2f\uff27\uff33", ["carolin", "dog"]),
        ("I don't like it, she can't", ["not", "like", "not"]),
        ("I do not like it", ["not", "like"]),
        ("7 May 2023", ["7", "may", "2023"]),
        ("2023-05-07", ["2023", "5", "7"]),
        ("07.05.2023", ["7", "5", "2023"]),
        ("the 8th, 1,200 people, 2.5 km", ["8", "1200", "peopl", "2.5", "km"]),
        ("3,14", ["3.14"]),
        ("room 007 and GPT4", ["room", "7", "gpt4"]),
        ("٢٠٢٣", ["2023"]),
        ("café cafe", ["cafe", "cafe"]),
        ("l'amour d'Anna", ["amour", "anna"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("rock'n'roll", ["rock", "n", "roll"]),
    ],
)
def test_words_and_numbers(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize("text", ["", "   ", "...!?", "\x00", "\ud800", "🙂", "the of and", "'", "\u0301", "_"])
def test_what_has_no_word_gives_nothing(text: str) -> None:
    assert tokens(text) == []
    assert sparse(tokens(text), average_length=10.0) == Sparse((), ())
    assert sparse_query(tokens(text)) == Sparse((), ())


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("Which dogs does she own?", "My dog is called Toby."),
        ("When did Melanie paint a sunrise?", "I painted that lake sunrise last year"),
        ("Welche Häuser hat sie gekauft?", "Wir haben gestern ein Haus in Bremen gekauft."),
        ("¿Dónde viven las hermanas de Ana?", "La hermana de Ana vive en Madrid con su perro."),
        ("Où habitent les soeurs ?", "Ma sœur vit à Lyon et elle est là depuis deux ans."),
        ("В каком городе она живёт?", "Мы живём в большом городе"),
        ("أين المدرسة؟", "هذه مدرسة كبيرة"),
        ("电影", "我昨天看了一部电影"),  # PITFALLS 33
        ("猫", "我家的猫很可爱"),
        ("映画が好きですか", "昨日、新しい映画を見ました"),
        ("서울", "저는 서울에 살아요"),
        ("แมว", "ฉันรักแมวของฉัน"),
        ("भाषा", "मुझे हिन्दी भाषा पसंद है"),
        ("Αθήνα", "Μένω στην Αθήνα με τη γάτα μου."),
        ("2023", "We met on 7 May 2023."),
    ],
)
def test_a_question_meets_the_document_in_its_language(question: str, document: str) -> None:
    assert score(question, document) > 0
    assert score(question, "Nothing whatsoever") == 0


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("Häuser Berlin", "Wir haben uns die Häuser angesehen, aber nicht gekauft."),
        ("Hunde", "Der Nachbar hat zwei Hunde und eine Katze."),
        ("hermanas", "Las hermanas de mi madre viven en el campo."),
        ("Hauser", "Wir haben uns die Häuser angesehen."),
        ("Welche Häuser hat er gesehen?", "Häuser angesehen"),
        ("die hard", "We watched Die Hard on Sunday with the kids."),
    ],
)
def test_a_text_too_short_to_know_its_language_still_meets_others(question: str, document: str) -> None:
    assert score(question, document) > 0


def test_english_words_are_counted_once_and_foreign_ones_also_by_their_own_stem() -> None:
    assert tokens("Anna bought houses") == ["anna", "bought", "hous"]
    assert {"hauser", "haus"} <= set(tokens("Wir haben die Häuser gesehen"))


def test_scripts_without_blanks_become_bigrams() -> None:
    assert tokens("ไทย") == ["ไท", "ทย"]
    assert tokens("電") == ["電"]
    assert tokens("iPhone手机") == ["iphon", "手机", "手", "机"]
    assert tokens("アプリ") == ["アプ", "プリ"]
    assert tokens("서울에") == ["서울에", "서울", "울에"]
    assert "的" not in tokens("我的书")


def test_sparse_is_the_term_frequency_part_of_bm25() -> None:
    vector = sparse(["a", "b", "a"], average_length=3.0)
    weights = dict(zip(vector.indices, vector.values, strict=True))
    (a,), (b,) = sparse_query(["a"]).indices, sparse_query(["b"]).indices
    assert weights == {a: pytest.approx(2 * 2.2 / 3.2), b: pytest.approx(1.0)}
    longer = sparse(["a", "b", "a"], average_length=1.0)
    assert all(new < old for new, old in zip(longer.values, vector.values, strict=True))
    assert sparse(["a"], average_length=0.0).values[0] > 0


def test_indices_are_ascending_unique_and_fit_32_bits() -> None:
    words = [f"word{number}" for number in range(1000)] * 2
    for vector in (sparse(words, average_length=10.0), sparse_query(words)):
        assert list(vector.indices) == sorted(set(vector.indices))
        assert len(vector.indices) == len(vector.values) == 1000
        assert 0 <= vector.indices[0] <= vector.indices[-1] < 2**32


def test_indices_are_the_same_in_every_process() -> None:
    script = """
import json
from dualmem.retrieval.text import sparse_query
print(json.dumps(sparse_query(["dog", "cat"]).indices))
"""
    seeds = [
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert [json.loads(out) for out in seeds] == [list(sparse_query(["dog", "cat"]).indices)] * 2


def test_colliding_tokens_share_one_place() -> None:
    # "plumless" and "buckeroo" have the same CRC-32.
    assert len(sparse_query(["plumless", "buckeroo"]).indices) == 1
    assert sparse(["plumless", "buckeroo"], average_length=2.0) == sparse(["plumless"] * 2, average_length=2.0)


def test_stemming_from_several_threads_gives_the_same_tokens() -> None:
    texts = [f"running{number} houses{number} painting{number} nationality{number}" for number in range(300)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(tokens, texts))
    assert together == [tokens(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "tokens_of_a_model"),
    [
        # Counted with the byte-pair tokenizer of Qwen2.5.
        ("I went to a LGBTQ support group yesterday and it was so powerful.", 16),
        ("Gestern war ich mit meiner Schwester in Hamburg, wo wir ein wunderschönes Konzert besucht haben.", 27),
        ("Вчера мы с сестрой ездили в Гамбург, где побывали на замечательном концерте.", 33),
    ],
)
def test_count_tokens_is_near_a_real_tokenizer(text: str, tokens_of_a_model: int) -> None:
    assert count_tokens(text) == pytest.approx(tokens_of_a_model, rel=0.2)


def test_count_tokens_by_kind() -> None:
    assert count_tokens("") == 0
    assert count_tokens("猫が好き") == 4
    assert count_tokens("don't") == 2
    assert count_tokens("1234567") == 3
    assert count_tokens("\n\n") == 1
    assert count_tokens("incomprehensibility") == 3


def test_similarity() -> None:
    assert similarity("Anna has two dogs", "Anna has two dogs.") == 1
    assert similarity("Anna has two dogs", "Tom plays chess") == 0
    assert similarity("Anna likes fish", "Anna does not like fish") < 1
    assert similarity("Anna likes fish", "Anna doesn't like fish") < 1
    assert 0.5 < similarity("Anna adopted two dogs in May", "In May, Anna adopted 2 dogs") < 1
    assert similarity("", "") == similarity("?!", " ?! ") == 1
    assert similarity("", "Anna") == 0
    assert similarity("the", "of") == 0


def test_normalise() -> None:
    assert normalise("  \u201cIt\u2019s\u201d \u2014\tＯＫ\n ") == '"it\'s" - ok'
    assert normalise("\u00abA\u00bb") == '"a"'
    assert normalise("\u00a0") == ""
    assert normalise("Straße") == "strasse"


TURN = "Hey! I went to a LGBTQ support group yesterday \u2014 it\u2019s so powerful. We talked; I\u2019ll go again."


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("I went to a LGBTQ support group yesterday", "I went to a LGBTQ support group yesterday"),
        ('"i WENT to a lgbtq  support\ngroup"', "I went to a LGBTQ support group"),
        ("yesterday - it's so powerful", "yesterday \u2014 it\u2019s so powerful"),
        ("I went to an LGBTQ support group yesterday", "I went to a LGBTQ support group yesterday"),
        ("support group yesterday, it was so powerful", "support group yesterday \u2014 it\u2019s so powerful"),
        ("support group yesterday, it was not powerful", None),
        (
            "to a support group yesterday, it's so powerful",
            "to a LGBTQ support group yesterday \u2014 it\u2019s so powerful",
        ),
        ("yesterday", "yesterday"),
        (TURN, TURN[: -len(".")]),
        ("I went to a chess club yesterday", None),
        ("group support LGBTQ yesterday went", None),
        ("Hey we talked, I'll never go", None),
        ("", None),
        ("...", None),
    ],
)
def test_find_quote(quote: str, expected: str | None) -> None:
    assert find_quote(quote, TURN) == expected


def test_a_quote_scattered_over_a_text_is_none() -> None:
    text = "I " + "walked and walked " * 20 + "like " + "nothing else on earth " * 20 + "fish"
    assert find_quote("I like fish", text) is None


def test_find_quote_without_blanks_and_with_accents() -> None:
    assert find_quote("看了一部电影", "我昨天看了一部电影。") == "看了一部电影"
    assert find_quote("서울에 살아요", "저는 서울에 살아요!") == "서울에 살아요"
    assert find_quote("cafe\u0301 au lait", "Un café au lait, merci") == "café au lait"
    assert find_quote("anything", "") is None


def test_a_very_long_quote_must_be_verbatim() -> None:
    text = " ".join(f"w{number}" for number in range(1000))
    assert find_quote(text, f"so: {text}!") == text
    assert find_quote(text.replace("w500 ", ""), text) is None


@settings(deadline=None)
@given(text=TEXTS)
def test_any_text_is_analysed(text: str) -> None:
    words = tokens(text)
    assert words == tokens(text)
    assert all(words)
    assert len(sparse(words, average_length=12.0).indices) <= len(words)
    assert 0 <= count_tokens(text) <= 2 * len(text)
    assert normalise(normalise(text)) == normalise(text)
    assert similarity(text, text) == 1


@settings(deadline=None)
@given(text=st.text(st.characters(codec="ascii")) | st.text("ab1'.,_-\n"))
def test_a_text_of_ascii_gives_the_tokens_it_gives_beside_another_script(text: str) -> None:
    assert tokens(f"{text} \u8336") == [*tokens(text), "\u8336"]


@settings(deadline=None)
@given(quote=TEXTS, text=TEXTS)
def test_any_quote_is_a_part_of_the_text_or_nothing(quote: str, text: str) -> None:
    span = find_quote(quote, text)
    assert span is None or (span and span in text)


@settings(deadline=None)
@given(text=TEXTS, first=st.integers(0, 80), length=st.integers(1, 40))
def test_a_part_of_a_text_is_found_in_it(text: str, first: int, length: int) -> None:
    words = text.split()[first % 7 :][:length]
    quote = " ".join(words)
    assert not tokens(quote) or find_quote(quote, text) is not None


@settings(deadline=None)
@given(one=TEXTS, other=TEXTS)
def test_similarity_is_symmetric_and_bounded(one: str, other: str) -> None:
    assert 0 <= similarity(one, other) == similarity(other, one) <= 1
