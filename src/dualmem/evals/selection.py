"""Choose the samples of a run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dualmem.evals.samples import Benchmark, Sample
from dualmem.loaders.conversation import in_first_sessions


def first_sessions(benchmark: Benchmark, count: int) -> Benchmark:
    """Return a benchmark over the first `count` sessions of each conversation.

    Questions are kept whose evidence lies in those sessions as a whole; the others, and those that name no evidence,
    are counted in `skipped`. Messages outside any session are kept.
    """
    transcripts = {}
    known: dict[str, set[str | None]] = {}
    for key, transcript in benchmark.transcripts.items():
        kept = tuple(in_first_sessions(transcript.messages, count))
        transcripts[key] = transcript.model_copy(update={"messages": kept})
        known[key] = {each.id for each in kept}
    samples = tuple(
        each for each in benchmark.samples if each.evidence and known[each.conversation].issuperset(each.evidence)
    )
    skipped = benchmark.skipped + Counter(
        {f"question without all its evidence in the first {count} sessions": len(benchmark.samples) - len(samples)}
    )
    return replace(benchmark, samples=samples, transcripts=transcripts, skipped=skipped)


def select(
    samples: Sequence[Sample],
    *,
    conversations: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> list[Sample]:
    """Return the samples of a run, in the benchmark's order.

    Args:
        samples: All of them.
        conversations: Only those about the first so many conversations.
        sample: Draw so many, each category with its share and at least one (stratified).
        seed: The same seed draws the same samples.
        limit: Only the first so many of what is left.
    """
    chosen = list(samples)
    if conversations is not None:
        keys = list(dict.fromkeys(each.conversation for each in chosen))[:conversations]
        chosen = [each for each in chosen if each.conversation in keys]
    if sample is not None and sample < len(chosen):
        chosen = _stratified(chosen, sample, seed)
    return chosen if limit is None else chosen[:limit]


def _stratified(samples: Sequence[Sample], count: int, seed: int) -> list[Sample]:
    groups: dict[str, list[Sample]] = {}
    for each in samples:
        groups.setdefault(each.category, []).append(each)
    shares = _shares({name: len(group) for name, group in groups.items()}, count)
    generator = random.Random(seed)  # noqa: S311 - a draw of samples, nothing secret
    drawn = {each.id for name in sorted(groups) for each in generator.sample(groups[name], shares[name])}
    return [each for each in samples if each.id in drawn]


def _shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Return how many to draw of each category: by its share, the largest remainders first, none left empty.

    With fewer samples than categories, the largest categories get one.
    """
    total = sum(sizes.values())
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    if count <= len(names):
        return {name: int(place < count) for place, name in enumerate(names)}
    exact = {name: count * sizes[name] / total for name in names}
    shares = {name: min(sizes[name], max(1, int(exact[name]))) for name in names}
    while sum(shares.values()) < count:
        open_names = [name for name in names if shares[name] < sizes[name]]
        shares[max(open_names, key=lambda name: (exact[name] - shares[name], name))] += 1
    while sum(shares.values()) > count:
        shares[
            max((name for name in names if shares[name] > 1), key=lambda name: (shares[name] - exact[name], name))
        ] -= 1
    return shares
