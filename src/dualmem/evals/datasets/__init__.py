"""Read the benchmarks in their official formats.

The files stay where their makers put them; none is shipped. What is malformed in them is repaired where it can be,
left out where it cannot, and counted either way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dualmem.errors import InputError
from dualmem.evals.datasets import beam, locomo, longmemeval, realtalk, structmemeval
from dualmem.evals.samples import Benchmark

DATASETS: Final = ("locomo", "realtalk", "beam", "structmemeval", "longmemeval")
TASKS: Final = structmemeval.TASKS


def load_benchmark(name: str, path: Path, *, task: str | None = None, adversarial: bool = False) -> Benchmark:
    """Return the benchmark `name` as read from `path`.

    Args:
        name: One of `DATASETS`.
        path: A file in the official format, or a folder that holds such files.
        task: One of `TASKS`, for StructMemEval; a category or an ability for the others. None for all.
        adversarial: Take LoCoMo's category 5 too, whose questions have no answer in the conversation.

    Raises:
        InputError: There is no such benchmark or task, or nothing of it at `path`.
    """
    path = path.expanduser()
    if not path.exists():
        message = f"there is nothing at {str(path)!r}; give --data the file or folder of the benchmark"
        raise InputError(message)
    if name == "locomo":
        benchmark = locomo.load(path, adversarial=adversarial)
    elif name == "realtalk":
        benchmark = realtalk.load(path)
    elif name == "beam":
        benchmark = beam.load(path)
    elif name == "structmemeval":
        benchmark = structmemeval.load(path)
    elif name == "longmemeval":
        benchmark = longmemeval.load(path)
    else:
        message = f"no benchmark is named {name!r}; there are {', '.join(DATASETS)}"
        raise InputError(message)
    return _of_task(benchmark, path, task)


def _of_task(benchmark: Benchmark, path: Path, task: str | None) -> Benchmark:
    if not benchmark.samples:
        message = f"there is no question of {benchmark.name} at {str(path)!r}; check that it is the official format"
        raise InputError(message)
    if task is None:
        return benchmark
    chosen = tuple(sample for sample in benchmark.samples if sample.category == task)
    if not chosen:
        known = sorted({sample.category for sample in benchmark.samples})
        message = f"{benchmark.name} has no questions of {task!r} here; there are {', '.join(known)}"
        raise InputError(message)
    keys = {sample.conversation for sample in chosen}
    return Benchmark(
        benchmark.name,
        chosen,
        {key: transcript for key, transcript in benchmark.transcripts.items() if key in keys},
        benchmark.skipped,
        {key: observations for key, observations in benchmark.observations.items() if key in keys},
    )
