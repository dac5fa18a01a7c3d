"""Recalls that are watched: each runs once, by a form, and tells its steps to whoever follows it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from dualmem.errors import DualmemError, NotFound
from dualmem.explorer.steps import DELIBERATION, Step, heading, step, step_name
from dualmem.records import EvidenceItem, ModelCall, Recollection, Usage

if TYPE_CHECKING:
    from dualmem.config import Settings
    from dualmem.explorer.pages import Site

logger = logging.getLogger(__name__)

_KEPT: Final = 24
"""Runs kept to be looked at again."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step of a recall took."""

    step: str
    calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    seconds: float
    cost: float | None


@dataclass(eq=False)
class Run:
    """One recall and what was said of it so far, as rendered events in order."""

    user_id: str
    question: str
    preset: str
    key: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    events: list[tuple[str, str]] = field(default_factory=list)
    finished: bool = False
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None

    async def tell(self, name: str, html: str, *, last: bool = False) -> None:
        """Add an event."""
        async with self._changed:
            self.events.append((name, html))
            self.finished = last
            self._changed.notify_all()

    async def follow(self, start: int) -> AsyncIterator[tuple[int, str, str]]:
        """Return the events from the one numbered `start` on, as they come, until the last."""
        at = start
        while True:
            async with self._changed:
                while len(self.events) <= at and not self.finished:
                    await self._changed.wait()
                fresh = self.events[at:]
                done = self.finished
            for name, html in fresh:
                yield at, name, html
                at += 1
            if done and at >= len(self.events):
                return


class Console:
    """Starts recalls and keeps the last of them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def start(self, user_id: str, question: str, preset: str, asked_at: datetime | None) -> Run:
        """Start a recall under a preset.

        Raises:
            ConfigurationError: There is no such preset, or it cannot work with what is configured.
        """
        options: dict[str, Any] = {"preset": preset}
        if not self._site.writable:
            # What deliberation finds is written back, which is no reading.
            options["write_back"] = False
        settings = self._site.memory.settings.override(options)
        run = Run(user_id, question, preset)
        self._runs[run.key] = run
        while len(self._runs) > _KEPT:
            _, old = self._runs.popitem(last=False)
            if old.task is not None:
                old.task.cancel()
        run.task = asyncio.create_task(self._recall(run, settings, asked_at))
        return run

    def run(self, key: str) -> Run:
        """Return a run.

        Raises:
            NotFound: It was never started, or is no longer kept.
        """
        if key not in self._runs:
            message = f"there is no recall {key!r}; the last {_KEPT} are kept"
            raise NotFound(message)
        return self._runs[key]

    async def close(self) -> None:
        """Stop what still runs."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _recall(self, run: Run, settings: Settings, asked_at: datetime | None) -> None:
        calls: list[ModelCall] = []
        render = self._render
        try:
            recollection = await self._watch(run, settings, asked_at, calls)
        except DualmemError as error:
            await run.tell("done", render("failed.html", error=str(error)), last=True)
            return
        except asyncio.CancelledError:
            await run.tell("done", render("failed.html", error="it was stopped"), last=True)
            raise
        except Exception as error:
            # A fault of ours: whoever follows must not wait for ever.
            logger.exception("a recall in the explorer failed")
            await run.tell("done", render("failed.html", error=f"{type(error).__name__}: {error}"), last=True)
            return
        costs = self._costs(settings, calls, recollection.timings)
        html = render(
            "recollection.html",
            user=run.user_id,
            recollection=recollection,
            evidence=_in_two(recollection.evidence),
            costs=costs,
        )
        await run.tell("done", html, last=True)
        if recollection.remembered:
            self._site.changed()

    async def _watch(
        self, run: Run, settings: Settings, asked_at: datetime | None, calls: list[ModelCall]
    ) -> Recollection:
        """Run the graph, tell each step as it ends, and collect the calls."""
        given: dict[str, Any] = {"user_id": run.user_id, "question": run.question}
        if asked_at is not None:
            given["asked_at"] = asked_at
        recollection: Recollection | None = None
        # Not the stream of updates: of a graph inside another it shows no more than what goes out.
        async for event in self._site.memory.recall_graph.astream_events(given, context=settings, version="v2"):
            node = event["metadata"].get("langgraph_node")
            if event["name"] != node or node == DELIBERATION:
                continue
            deliberating = str(event["metadata"].get("langgraph_checkpoint_ns", "")).startswith(f"{DELIBERATION}:")
            if event["event"] == "on_chain_start":
                await run.tell("now", self._render("now.html", heading=heading(step_name(node, deliberating))))
            elif event["event"] == "on_chain_end":
                shown = step(node, event["data"].get("output"), deliberating=deliberating)
                calls += shown.calls
                recollection = shown.recollection or recollection
                await run.tell("step", self._render("step.html", step=shown, cost=self._cost(settings, shown)))
        assert recollection is not None  # noqa: S101 - the gate sets one, or an error was raised
        return recollection

    def _render(self, template: str, **values: Any) -> str:
        return self._site.templates.get_template(template).render(**values)

    def _model(self, settings: Settings) -> str:
        return settings.chat_model or ""

    def _cost(self, settings: Settings, shown: Step) -> float | None:
        return self._site.prices.cost(self._model(settings), Usage.of(shown.calls)) if shown.calls else None

    def _costs(self, settings: Settings, calls: list[ModelCall], timings: Mapping[str, float]) -> list[StepCost]:
        """Return what each step took, in the order in which the steps ran."""
        names = list(dict.fromkeys([*timings, *(call.step for call in calls)]))
        rows = []
        for name in names:
            usage = Usage.of(call for call in calls if call.step == name)
            seconds = timings.get(name, sum(call.seconds for call in calls if call.step == name))
            cost = self._site.prices.cost(self._model(settings), usage) if usage.calls else None
            rows.append(
                StepCost(
                    heading(name),
                    usage.calls,
                    usage.tokens_in,
                    usage.tokens_out,
                    usage.tokens_cached,
                    seconds,
                    cost,
                )
            )
        return rows


def _in_two(evidence: Sequence[EvidenceItem]) -> tuple[list[EvidenceItem], list[EvidenceItem]]:
    """Return what is cited with all that belongs to it, and the rest."""
    units = {item.unit for item in evidence if item.cited}
    return [item for item in evidence if item.unit in units], [item for item in evidence if item.unit not in units]


def as_event(number: int, name: str, html: str) -> str:
    """Write an event of a server-sent stream; its number lets a browser go on where a connection broke."""
    data = "\n".join(f"data: {line}" for line in html.splitlines()) or "data:"
    return f"id: {number}\nevent: {name}\n{data}\n\n"
