"""What scaling_simulation.py is made of: users, where they are placed, failing nodes, cached data, and workers.

What a memory and a question take was measured with the other scripts (docs/performance.md, docs/results.md); how users
differ, how nodes fail and how fast disks are is assumed. Both stand below, each with where it comes from.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

# Measured (docs/performance.md).
DISK = 12_110
"""Bytes on disk of a memory and its turn."""
RESIDENT = 14_940
"""Bytes in memory of a memory and its turn in a process that searches them."""
FAST = (2, 0.046)
"""Model calls in sequence, and seconds of computing, of a question that is answered fast."""
DELIBERATED = (5, 0.263)
"""The same of one whose chunks are all read at once."""

# Measured (docs/results.md, and the 60 tokens of a turn in docs/performance.md).
GRADED_TOKENS = 6_590
"""Tokens in of a question that is answered fast and graded."""
WAVE_TOKENS = 17_400
"""Tokens in that a wave of four chunks adds, with being asked whether that is enough."""
READ_TOKENS = 60
"""Tokens in of a turn that is read."""
WAVE_TURNS = 240
"""Turns in a wave of four chunks."""

# Published: D-Mem's rate of its quality gate, and LangGraph's Agent Server's `N_JOBS_PER_WORKER`.
FALLBACK = 0.241
JOBS = 10

# Assumed.
MEMORIES = 10_000
"""Of a user, on average."""
SIZE_SPREAD = 1.0
"""Sigma of the lognormal distribution of memories: one user in a hundred has over six times the average."""
QUESTIONS = 10.0
"""Of a user and day, on average."""
RATE_SPREAD = 1.5
"""Sigma of the lognormal distribution of questions a day; one user in a hundred asks over ten times the average."""
TOGETHER = 0.5
"""Correlation of the two, of their logarithms."""
PEAK = 3.0
"""The busiest moment of a day against its average."""
SESSION = 5.0
"""Questions that are asked one after the other, on average, a minute apart."""
NODE = 3e12
"""Bytes on a node."""
CLUSTER = 12
"""Nodes that hold each other's second copies."""
COPIES = 2
SHARDS = 32
"""Shards for each node, where users are placed by shard."""
BOUND = 1.05
"""Of the average load, what a node takes at most where loads are bounded."""
FAILURES = 0.05
"""Of a node in a year."""
COPYING = 200e6
"""Bytes a second that a node reads for a new copy, beside what it serves."""
READING = 1e9
"""Bytes a second that a disk reads."""
CALL = 0.2
"""Seconds of a model call, on average."""
CALL_SPREAD = 0.5
"""Sigma of their lognormal distribution."""
DAY = 86_400.0


@dataclass(frozen=True)
class Population:
    """Users: how many memories each has, and questions a day."""

    memories: Floats
    questions: Floats

    @classmethod
    def drawn(cls, users: int, seed: int) -> Population:
        """Return users whose averages are the assumed ones."""
        chance = np.random.default_rng((seed, 0))
        size = chance.standard_normal(users)
        rate = TOGETHER * size + math.sqrt(1 - TOGETHER**2) * chance.standard_normal(users)
        memories, questions = np.exp(SIZE_SPREAD * size), np.exp(RATE_SPREAD * rate)
        return cls(memories * (MEMORIES / memories.mean()), questions * (QUESTIONS / questions.mean()))


# Placement: which nodes hold a user's two copies.


def by_hash(population: Population, nodes: int, chance: np.random.Generator) -> Numbers:
    """Place each user on two different nodes by a hash of the id. Returns (2, users)."""
    first = chance.integers(nodes, size=len(population.memories))
    return np.stack([first, (first + chance.integers(1, nodes, size=len(first))) % nodes])


def by_shard(population: Population, nodes: int, chance: np.random.Generator) -> Numbers:
    """Hash users to shards, and the shards to nodes."""
    shards = nodes * SHARDS
    shard = chance.integers(shards, size=len(population.memories))
    first = chance.integers(nodes, size=shards)
    return np.stack([first, (first + chance.integers(1, nodes, size=shards)) % nodes])[:, shard]


def bounded(population: Population, nodes: int, chance: np.random.Generator) -> Numbers:
    """Hash users to shards, and place a shard on the first nodes in an order of its own that have room for it.

    As in consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2018), no node takes more than
    `BOUND` times the average.
    """
    shards = nodes * SHARDS
    shard = chance.integers(shards, size=len(population.memories))
    weights = np.bincount(shard, population.memories, shards)
    room = [BOUND * COPIES * weights.sum() / nodes] * nodes
    places = np.zeros((COPIES, shards), np.int64)
    for number in range(shards):
        found: list[int] = []
        start, step = int(chance.integers(nodes)), int(chance.integers(1, nodes))
        while math.gcd(step, nodes) != 1:
            step = int(chance.integers(1, nodes))
        for turn in range(nodes):
            node = (start + turn * step) % nodes
            if room[node] >= weights[number]:
                room[node] -= weights[number]
                found.append(node)
                if len(found) == COPIES:
                    break
        assert len(found) == COPIES, "the bound leaves no room"
        places[:, number] = found
    return places[:, shard]


def two_choices(population: Population, nodes: int, chance: np.random.Generator) -> Numbers:
    """Place each copy on the one of two random nodes that holds less (Mitzenmacher, 2001).

    What a node holds is known as of some moments ago: as many users as there are nodes are placed by the same figures.
    """
    loads = np.zeros(nodes)
    users = len(population.memories)
    places = np.zeros((COPIES, users), np.int64)
    for start in range(0, users, nodes):
        weights = population.memories[start : start + nodes]
        one = chance.integers(nodes, size=(COPIES, 2, len(weights)))
        better = np.where(loads[one[:, 0]] <= loads[one[:, 1]], one[:, 0], one[:, 1])
        better[1] = np.where(better[1] == better[0], (better[0] + 1) % nodes, better[1])
        places[:, start : start + nodes] = better
        for chosen in better:
            loads += np.bincount(chosen, weights, nodes)
    return places


METHODS: dict[str, Callable[[Population, int, np.random.Generator], Numbers]] = {
    "hash of the user": by_hash,
    f"hash to {SHARDS} shards a node": by_shard,
    f"shards with bounded load {BOUND}": bounded,
    "two choices for each user": two_choices,
}


def both_down(nodes: int, partners: int, repair: float, years: float, chance: np.random.Generator) -> int:
    """Return how often a node fails while one that it shares users with is being copied.

    Args:
        nodes: How many there are; they stand in groups of `partners` + 1.
        partners: Nodes that hold second copies of a node's users.
        repair: Years until what a node held has two copies again.
        years: Simulated years.
        chance: Where failures come from.
    """
    count = chance.poisson(nodes * FAILURES * years)
    times = np.sort(chance.random(count)) * years
    group, member = np.divmod(chance.integers(nodes, size=count), partners + 1)
    lost = 0
    down: dict[int, dict[int, float]] = {}
    for time, where, which in zip(times.tolist(), group.tolist(), member.tolist(), strict=True):
        others = {node: until for node, until in down.get(where, {}).items() if until > time}
        lost += any(node != which for node in others)
        down[where] = {**others, which: time + repair}
    return lost


def daytime(moments: Floats) -> Floats:
    """Return the moments of an even day moved so that the busiest is `PEAK` times the average (von Mises)."""
    grid = np.linspace(0, DAY, 2_881)
    low, high = 0.0, 50.0
    for _ in range(60):
        sharp = (low + high) / 2
        low, high = (sharp, high) if math.exp(sharp) / float(np.i0(sharp)) < PEAK else (low, sharp)
    rate = np.exp(low * np.cos((grid / DAY - 0.5) * 2 * np.pi))
    passed = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2)])
    day, within = np.divmod(moments, DAY)
    moved: Floats = day * DAY + np.interp(within / DAY, passed / passed[-1], grid)
    return moved


def sessions(rates: Floats, seconds: float, length: float, chance: np.random.Generator) -> list[tuple[float, int]]:
    """Return who asks when, in order: sessions by each user's rate, of `length` questions on average."""
    count = chance.poisson(rates.sum() * seconds / length)
    user = chance.choice(len(rates), count, p=rates / rates.sum())
    sizes = chance.geometric(1 / length, count)
    start = np.repeat(daytime(chance.random(count) * seconds), sizes)
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    moments = start + place * 60.0
    order = np.argsort(moments, kind="stable")
    return list(zip(moments[order].tolist(), np.repeat(user, sizes)[order].tolist(), strict=True))


def least_recent(asked: Sequence[tuple[float, int]], sizes: Floats, memory: float, warm: float) -> dict[str, Any]:
    """Keep users' data in memory, the least recently asked for leaving first, and count from `warm` on."""
    kept: OrderedDict[int, float] = OrderedDict()
    weights = sizes.tolist()
    free = memory
    hours: dict[int, list[float]] = {}
    counted = cold = 0
    for moment, user in asked:
        here = user in kept
        if here:
            kept.move_to_end(user)
        elif weights[user] <= memory:
            kept[user] = weights[user]
            free -= weights[user]
            while free < 0:
                free += kept.popitem(last=False)[1]
        if moment < warm:
            continue
        counted += 1
        if not here:
            cold += 1
            hours.setdefault(int(moment // 3600), []).append(weights[user])
    busiest = max(hours.values(), key=len, default=[])
    return {
        "asked": counted,
        "cold": cold,
        "bytes": sum(map(sum, hours.values())),
        "cold_in_busiest_hour": len(busiest),
        "bytes_in_busiest_hour": sum(busiest),
    }


# Workers.


@dataclass(frozen=True)
class Load:
    """Questions that come to workers.

    Attributes:
        rate: Questions a second.
        deliberated: Share that is deliberated.
        call: Seconds of a model call, on average.
        spread: Sigma of their lognormal distribution; None for an exponential one.
        fast: Calls in sequence and seconds of computing of a question that is answered fast.
        slow: The same of one that is deliberated.
    """

    rate: float
    deliberated: float = FALLBACK
    call: float = CALL
    spread: float | None = CALL_SPREAD
    fast: tuple[int, float] = FAST
    slow: tuple[int, float] = DELIBERATED


def served(load: Load, workers: int, jobs: int, count: int, chance: np.random.Generator) -> tuple[Floats, Floats]:
    """Return for each question the seconds until it was taken, and until it was answered.

    Each worker is a process with one core, which runs up to `jobs` questions at once: a question computes a while,
    waits for the model, computes, and so on. Those that wait are taken in order by the worker with most room.
    """
    arrivals = np.cumsum(chance.exponential(1 / load.rate, count))
    slow = chance.random(count) < load.deliberated
    kinds = [load.slow if one else load.fast for one in slow.tolist()]
    calls = sum(kind[0] for kind in kinds)
    if load.spread is None:
        waits = chance.exponential(load.call, calls)
    else:
        waits = chance.lognormal(math.log(load.call) - load.spread**2 / 2, load.spread, calls)
    waiting = waits.tolist()
    room = [jobs] * workers
    core = [0.0] * workers
    queue: deque[int] = deque()
    place, left = [0] * count, [kind[0] for kind in kinds]
    taken, done = np.zeros(count), np.zeros(count)
    # An event is a question that comes, or has a reply; questions come in order, so that one is in the heap at a time.
    events: list[tuple[float, int, bool]] = [(float(arrivals[0]), 0, True)]

    def compute(now: float, question: int) -> None:
        worker = place[question]
        core[worker] = max(now, core[worker]) + kinds[question][1] / (kinds[question][0] + 1)
        if left[question]:
            left[question] -= 1
            heapq.heappush(events, (core[worker] + waiting.pop(), question, False))
        else:
            heapq.heappush(events, (core[worker], -1 - question, False))

    def take(now: float) -> None:
        while queue and (worker := max(range(workers), key=room.__getitem__)) >= 0 and room[worker]:
            question = queue.popleft()
            room[worker] -= 1
            place[question] = worker
            taken[question] = now
            compute(now, question)

    while events:
        now, question, comes = heapq.heappop(events)
        if comes:
            queue.append(question)
            if question + 1 < count:
                heapq.heappush(events, (float(arrivals[question + 1]), question + 1, True))
            take(now)
        elif question < 0:
            done[-1 - question] = now
            room[place[-1 - question]] += 1
            take(now)
        else:
            compute(now, question)
    return taken - arrivals, done - arrivals


def erlang_c(servers: int, busy: float) -> float:
    """Return the share that waits with `servers` servers of which `busy` are busy on average (M/M/c)."""
    term = total = 1.0
    for number in range(1, servers):
        term *= busy / number
        total += term
    last = term * busy / (servers - busy)
    return last / (total + last)
