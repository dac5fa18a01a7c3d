"""Simulate what ten million users would take: placement, a failed node, cached data, arrivals, workers, and tokens.

Usage: python benchmarks/scaling_simulation.py [--users 10000000] [--seed 0] [--parts placement failure cache ...]

Prints JSON lines for each part: what the simulation found and, under `paper`, what the sums of docs/scaling.md say of
the same. Equal seeds give equal lines. What it takes as measured and what it assumes stands in scaling_models.py. None
of it runs dualmem: it tells what measured figures come to at a size that nobody could run here. Takes half a minute.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scaling_models as model
from scaling_models import Population


def placement(population: Population, seed: int) -> Iterator[dict[str, Any]]:
    """Yield how even each method places users, by bytes and by questions."""
    users = len(population.memories)
    total = population.memories.sum() * model.DISK * model.COPIES
    nodes = max(model.CLUSTER, math.ceil(total / model.NODE))
    yield {
        "users": users,
        "bytes": total / model.COPIES,
        "memories_of_the_largest_1%": round(float(np.quantile(population.memories, 0.99))),
        "memories_of_the_largest": round(float(population.memories.max())),
        "questions_of_the_busiest_1%": round(float(np.quantile(population.questions, 0.99)), 1),
        "questions_of_the_busiest": round(float(population.questions.max())),
        "paper": {
            "bytes": users * model.MEMORIES * model.DISK,
            "nodes": math.ceil(users * model.MEMORIES * model.DISK * model.COPIES / model.NODE),
        },
    }
    for number, (name, method) in enumerate(model.METHODS.items()):
        places = method(population, nodes, np.random.default_rng((seed, 1, number)))
        held = np.sum([np.bincount(copy, population.memories, nodes) for copy in places], axis=0)
        # A question goes to the first copy.
        asked = np.bincount(places[0], population.questions, nodes)
        yield {
            "method": name,
            "nodes": nodes,
            "bytes_max_to_mean": round(float(held.max() / held.mean()), 3),
            "bytes_p99_to_mean": round(float(np.quantile(held, 0.99) / held.mean()), 3),
            "questions_max_to_mean": round(float(asked.max() / asked.mean()), 3),
            "nodes_so_that_the_fullest_fits": math.ceil(nodes * held.max() / held.mean()),
            "paper": {"bytes_max_to_mean": 1.0},
        }


def failure(population: Population, seed: int, years: int = 20_000) -> Iterator[dict[str, Any]]:
    """Yield what the others carry meanwhile, and how often both copies are gone before a third is made."""
    nodes = (
        math.ceil(population.memories.sum() * model.DISK * model.COPIES / model.NODE / model.CLUSTER) * model.CLUSTER
    )
    each = model.NODE / model.COPYING / model.DAY / 365
    for name, sources in (("in pairs", 1), (f"spread over {model.CLUSTER} nodes", model.CLUSTER - 1)):
        chance = np.random.default_rng((seed, 2, sources))
        repair = each / sources
        lost = model.both_down(nodes, sources, repair, years, chance)
        share = 1 / sources
        yield {
            "copies": name,
            "nodes": nodes,
            "load_of_those_that_take_over": round(1 + share, 3),
            "hours_until_copied": round(repair * 365 * 24, 2),
            "years": years,
            "second_copies_lost": lost,
            "years_between": round(years / lost) if lost else None,
            "share_of_users_then": round(share / nodes * model.COPIES, 6),
            "paper": {"years_between": round(1 / (nodes * model.FAILURES * sources * model.FAILURES * repair))},
        }


def cache(population: Population, seed: int) -> Iterator[dict[str, Any]]:
    """Yield how often a question finds its user's data in a node's memory, over a day after a first one."""
    # Questions go to the first copy, and half of what a node holds are second ones.
    users = min(len(population.memories), round(model.NODE / (model.MEMORIES * model.DISK) / model.COPIES))
    chance = np.random.default_rng((seed, 3))
    chosen = chance.choice(len(population.memories), users, replace=False)
    sizes, rates = population.memories[chosen] * model.RESIDENT, population.questions[chosen] / model.DAY
    asked = model.sessions(rates, 2 * model.DAY, model.SESSION, chance)
    for memory in (37e9, 74e9, 148e9, 296e9):
        row = model.least_recent(asked, sizes, memory, model.DAY)
        yield {
            "users": users,
            "memory_gb": memory / 1e9,
            "questions": row["asked"],
            "in_memory": round(1 - row["cold"] / row["asked"], 3),
            "cold_reads_a_second_at_the_peak": round(row["cold_in_busiest_hour"] / 3600, 2),
            "gb_read_a_second_at_the_peak": round(row["bytes_in_busiest_hour"] / 3600 / 1e9, 3),
            "seconds_of_a_cold_read": round(row["bytes"] / max(1, row["cold"]) / model.READING, 3),
            "paper": {"memory_gb_for_2%_of_users": round(0.02 * users * model.MEMORIES * model.RESIDENT / 1e9)},
        }


def arrivals(population: Population, seed: int) -> Iterator[dict[str, Any]]:
    """Yield how questions come over a day, hour by hour."""
    moments = model.daytime(np.random.default_rng((seed, 4)).random(1_000_000) * model.DAY)
    total = population.questions.sum()
    hours, _ = np.histogram(moments, 24, (0.0, model.DAY))
    minutes, _ = np.histogram(moments, 1_440, (0.0, model.DAY))
    busiest = int(minutes.argmax()) * 60
    near = float(((moments >= busiest - 600) & (moments < busiest + 600)).mean())
    yield {
        "questions_a_second": round(total / model.DAY),
        "at_the_peak": round(total * near / 1_200),
        "by_hour": [round(total * float(share) / len(moments) / 3600) for share in hours],
        "paper": {"questions_a_second": 1_160, "at_the_peak": 3_470},
    }


def workers(population: Population, seed: int, seconds: float = 600.0) -> Iterator[dict[str, Any]]:
    """Yield how long questions take in one cluster at the busiest moment, by the number of workers."""
    clusters = math.ceil(population.memories.sum() * model.DISK * model.COPIES / model.NODE / model.CLUSTER)
    rate = population.questions.sum() / model.DAY * model.PEAK / clusters
    kinds = ((1 - model.FALLBACK, model.FAST), (model.FALLBACK, model.DELIBERATED))
    cores = rate * sum(share * computing for share, (_, computing) in kinds)
    for call, jobs in ((model.CALL, model.JOBS), (1.0, model.JOBS), (1.0, 5 * model.JOBS)):
        slots = rate * sum(share * (calls * call + computing) for share, (calls, computing) in kinds)
        for busy in (0.95, 0.8, 0.6, 0.4):
            count = math.ceil(max(cores, slots / jobs) / busy)
            load = model.Load(rate, call=call)
            chance = np.random.default_rng((seed, 5, count, jobs, round(call * 1000)))
            waited, took = model.served(load, count, jobs, round(rate * seconds), chance)
            keep = slice(len(took) // 5, None)
            p50, p95, p99 = (round(float(value), 2) for value in np.quantile(took[keep], (0.5, 0.95, 0.99)))
            yield {
                "questions_a_second": round(rate, 1),
                "call_s": call,
                "jobs": jobs,
                "workers": count,
                "of_all_clusters": count * clusters,
                "cores_busy": round(cores / count, 2),
                "jobs_busy": round(slots / count / jobs, 2),
                "waited_mean_s": round(float(waited[keep].mean()), 3),
                "p50_s": p50,
                "p95_s": p95,
                "p99_s": p99,
                "paper": {"workers": round(cores, 1), "p50_s": round(model.FAST[0] * call + model.FAST[1], 2)},
            }


def tokens(population: Population, seed: int, count: int = 200_000) -> Iterator[dict[str, Any]]:
    """Yield tokens in of a question, by the share deliberated and the share that each wave satisfies."""
    chance = np.random.default_rng((seed, 6))
    asking = chance.choice(len(population.questions), count, p=population.questions / population.questions.sum())
    turns = population.memories[asking]
    waves = np.maximum(1, np.ceil(turns / model.WAVE_TURNS))
    everything = float((turns * model.READ_TOKENS).mean())
    paper_waves = math.ceil(model.MEMORIES / model.WAVE_TURNS)
    for fallback in (0.1, model.FALLBACK, 0.5):
        for satisfied in (1.0, 0.5, 0.25, 0.1, 0.0):
            for most in (None, 8):
                limit = waves if most is None else np.minimum(waves, most)
                reached = limit if not satisfied else np.minimum(chance.geometric(satisfied, count), limit)
                doubted = chance.random(count) < fallback
                mean = float((model.GRADED_TOKENS + doubted * reached * model.WAVE_TOKENS).mean())
                expected = paper_waves if not satisfied else (1 - (1 - satisfied) ** paper_waves) / satisfied
                row = {
                    "deliberated": fallback,
                    "satisfied_by_a_wave": satisfied,
                    "most_waves": most,
                    "waves": round(float(reached.mean()), 2),
                    "waves_p95": float(np.quantile(reached, 0.95)),
                    "tokens_in": round(mean),
                    "of_reading_all": round(mean / everything, 4),
                }
                paper = round(model.GRADED_TOKENS + fallback * expected * model.WAVE_TOKENS)
                yield row if most else {**row, "paper": {"tokens_in": paper, "waves": round(expected, 2)}}


PARTS: dict[str, Callable[[Population, int], Iterator[dict[str, Any]]]] = {
    "placement": placement,
    "failure": failure,
    "cache": cache,
    "arrivals": arrivals,
    "workers": workers,
    "tokens": tokens,
}


def main() -> None:
    """Read the options, simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    population = Population.drawn(options.users, options.seed)
    for part in options.parts:
        for row in PARTS[part](population, options.seed):
            print(json.dumps({"part": part, **row}), flush=True)


if __name__ == "__main__":
    main()
