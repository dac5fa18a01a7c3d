"""Scores of an answer against a reference that need no model.

Token F1 and BLEU-1 are the ones LoCoMo's users publish (mem0's evaluation, which LangMem, Zep, Nemori and D-Mem were
measured with): F1 over the *sets* of lower-cased words, BLEU-1 over nltk's words with smoothing method 1. LoCoMo's
own F1 differs (stemmed, repeats count, part by part for lists) and is given beside it.

nltk's `word_tokenize` first cuts sentences with a model that must be downloaded (punkt). Here the text is one line
(`preserve_line=True`), which needs no download: only a full stop inside the text stays on its word, and short
answers have none.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from functools import cache
from typing import Any, Final

from dualmem.evals.optional import bench_module

TEXT_METRICS: Final = ("f1", "f1_locomo", "bleu1", "rouge_l")

_ENDS: Final = str.maketrans(dict.fromkeys(".,!?", " "))
_ARTICLES: Final = re.compile(r"\b(a|an|the|and)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def text_scores(answer: str, target: str, category: str = "") -> dict[str, float]:
    """Return every text metric of `answer`, each from 0 to 1.

    Raises:
        ConfigurationError: nltk or rouge-score is not installed.
    """
    return {
        "f1": token_f1(answer, target),
        "f1_locomo": locomo_f1(answer, target, category),
        "bleu1": bleu1(answer, target),
        "rouge_l": rouge_l(answer, target),
    }


def token_f1(answer: str, target: str) -> float:
    """Return the F1 of the two sets of words, lower case and without `.,!?` (mem0's evaluation)."""
    said, wanted = set(_words(answer)), set(_words(target))
    common = len(said & wanted)
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


def _words(text: str) -> list[str]:
    return text.lower().translate(_ENDS).split()


def locomo_f1(answer: str, target: str, category: str = "") -> float:
    """Return LoCoMo's own F1 (its `task_eval/evaluation.py`).

    Words are lower-cased, stripped of punctuation, articles and "and", and stemmed; repeats count. For multi-hop
    questions the parts of the reference between commas are each matched with their best part of the answer; for
    open-domain ones only what stands before the first semicolon counts.
    """
    if category == "open-domain":
        target = target.split(";", maxsplit=1)[0].strip()
    if category != "multi-hop":
        return _stemmed_f1(answer, target)
    parts = [part.strip() for part in target.split(",")]
    said = [part.strip() for part in answer.split(",")]
    return sum(max(_stemmed_f1(one, part) for one in said) for part in parts) / len(parts)


def _stemmed_f1(answer: str, target: str) -> float:
    said, wanted = Counter(_stems(answer)), Counter(_stems(target))
    common = (said & wanted).total()
    return 2 * common / (said.total() + wanted.total()) if common else 0.0


def _stems(text: str) -> list[str]:
    bare = _ARTICLES.sub(" ", text.replace(",", "").lower().translate(_NO_PUNCTUATION))
    stemmer = _nltk("nltk.stem.porter").PorterStemmer()
    return [stemmer.stem(word) for word in bare.split()]


def bleu1(answer: str, target: str) -> float:
    """Return BLEU-1 of nltk's lower-cased words with smoothing method 1, brevity penalty included."""
    bleu = _nltk("nltk.translate.bleu_score")
    said, wanted = nltk_words(answer), nltk_words(target)
    if not said or not wanted:
        return 0.0
    smoothing = bleu.SmoothingFunction().method1
    return float(bleu.sentence_bleu([wanted], said, weights=(1, 0, 0, 0), smoothing_function=smoothing))


def nltk_words(text: str) -> list[str]:
    """Return nltk's words of a text, lower-cased (see the module)."""
    words: list[str] = _nltk("nltk.tokenize").word_tokenize(text.lower(), preserve_line=True)
    return words


def rouge_l(answer: str, target: str) -> float:
    """Return the F-measure of ROUGE-L, stemmed (Lin, "ROUGE", 2004; the rouge-score package)."""
    return float(_rouge_scorer().score(target, answer)["rougeL"].fmeasure)


@cache
def _rouge_scorer() -> Any:
    return bench_module("rouge_score.rouge_scorer", "rouge-score").RougeScorer(["rougeL"], use_stemmer=True)


def _nltk(name: str) -> Any:
    return bench_module(name, "nltk")


def evidence_recall(presented: set[str], evidence: tuple[str, ...]) -> float | None:
    """Return the share of `evidence` that was presented to the answering model, or None where none is known."""
    return len(presented & set(evidence)) / len(set(evidence)) if evidence else None
