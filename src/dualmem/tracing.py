"""Put routing decisions where LangSmith can filter by them."""

from __future__ import annotations

from langsmith import get_current_run_tree

from dualmem.records import Recollection


def annotate_run(recollection: Recollection) -> None:
    """Add route, verdict and evidence to the current run as metadata and tags; does nothing without tracing."""
    run = get_current_run_tree()
    if run is None:
        return
    verdict = recollection.verdict
    run.add_metadata(
        {
            "route": recollection.route,
            "outcome": recollection.outcome,
            "gate_policy": verdict.policy,
            "verdict": "pass" if verdict.passed else "fail",
            "relevant": verdict.relevant,
            "faithful": verdict.faithful,
            "complete": verdict.complete,
            "reason": verdict.reason,
            "missing": verdict.missing,
            "coverage": str(recollection.coverage) if recollection.coverage else "",
            "evidence_ids": [item.memory_id for item in recollection.evidence if item.memory_id],
            "tokens_by_step": recollection.usage.by_step,
        }
    )
    run.add_tags([f"route:{recollection.route}", f"verdict:{'pass' if verdict.passed else 'fail'}"])
