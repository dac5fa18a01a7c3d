"""Put routing decisions where LangSmith can filter by them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from langgraph.config import get_config
from langsmith import get_current_run_tree
from langsmith.utils import LangSmithError

from dualmem.records import Recollection, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langsmith.run_trees import RunTree

logger = logging.getLogger(__name__)

GRADES: Final = ("relevant", "faithful", "complete")

_RECALL: Final = "recall"
_DELIBERATION: Final = "deliberation"
"""Names of the graphs whose runs are labelled."""

_LABELS: Final = ("route:", "verdict:", "failed:")


def annotate_run(recollection: Recollection) -> None:
    """Say in the current run, and in those of the graphs it is a step of, what came out; nothing without tracing.

    Runs of a larger graph around those stay as they are. What an earlier step said is replaced.
    """
    run = get_current_run_tree()
    if run is None:
        return
    verdict = recollection.verdict
    final = recollection.final
    metadata = {
        "route": recollection.route,
        "outcome": recollection.outcome,
        "gate_policy": verdict.policy,
        "verdict": _word(verdict),
        **{grade: getattr(verdict, grade) for grade in GRADES},
        "reason": verdict.reason,
        "missing": verdict.missing,
        "final_verdict": _word(final) if final is not None else "",
        "degraded_reason": recollection.degraded_reason,
        "coverage": str(recollection.coverage) if recollection.coverage else "",
        "evidence_ids": _evidence_ids(recollection),
        "tokens_by_step": recollection.usage.by_step,
    }
    failed = [f"failed:{grade}" for grade in GRADES if not getattr(verdict, grade)]
    labels = [f"route:{recollection.route}", f"verdict:{_word(verdict)}", *failed]
    for one in (run, *_graph_runs(run)):
        _label(one, metadata, labels)


def post_grades(verdict: Verdict) -> None:
    """Post the gate's grades as feedback on the run of its graph, from a thread; nothing without tracing.

    A verdict that is no grading (sampled answers that were compared, a reply that could not be read) has none.
    """
    run = get_current_run_tree()
    if run is None or not verdict.readable or verdict.policy != "quality":
        return
    graph = next(iter(_graph_runs(run)), run)

    def post() -> None:
        client = graph.client
        try:
            # LangSmith finds a run by its project, which the first run that arrives makes.
            client.flush()
            session_id = graph.session_id or client.read_project(project_name=graph.session_name).id
            for grade in GRADES:
                client.create_feedback(
                    run_id=graph.id,
                    trace_id=graph.trace_id,
                    session_id=session_id,
                    start_time=graph.start_time,
                    key=f"gate_{grade}",
                    score=float(getattr(verdict, grade)),
                    comment=verdict.reason,
                )
        except LangSmithError as error:
            logger.warning("the gate's grades could not be posted: %s", error)

    asyncio.get_running_loop().run_in_executor(None, post)


def _word(verdict: Verdict) -> str:
    return "pass" if verdict.passed else "fail"


def _evidence_ids(recollection: Recollection) -> list[str]:
    """Return the ids of the memories, or of the turns where no memory came from them."""
    ids = (item.memory_id or next(iter(item.source_turn_ids), "") for item in recollection.evidence)
    return list(dict.fromkeys(filter(None, ids)))


def _graph_runs(run: RunTree) -> list[RunTree]:
    """Return the runs of our graphs around the run of a step, from the inside out."""
    known = _known_runs()
    found: list[RunTree] = []
    # The first is the step's own graph, whatever its caller named that run.
    parent = known.get(str(run.parent_run_id))
    while parent is not None and (not found or parent.name in {_RECALL, _DELIBERATION}):
        found.append(parent)
        if parent.name == _RECALL:
            break
        parent = known.get(str(parent.parent_run_id))
    return found


def _known_runs() -> Mapping[str, Any]:
    """Return the runs under way, by id: LangSmith's context knows the current one alone, its tracer all of them."""
    from langchain_core.tracers import LangChainTracer  # noqa: PLC0415 - only where something is traced

    handlers = getattr(get_config().get("callbacks"), "handlers", ())
    tracer = next((handler for handler in handlers if isinstance(handler, LangChainTracer)), None)
    return tracer.run_map if tracer is not None else {}


def _label(run: RunTree, metadata: dict[str, Any], labels: list[str]) -> None:
    # Made anew: LangChain hands one list of tags and one mapping on to several runs.
    run.tags = [*(tag for tag in run.tags or () if not tag.startswith(_LABELS)), *labels]
    extra = run.extra or {}
    run.extra = {**extra, "metadata": {**extra.get("metadata", {}), **metadata}}
