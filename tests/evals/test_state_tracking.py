"""With perfect extraction exactly the current state is in force, and every earlier one can be reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dualmem.errors import InputError
from dualmem.evals import state_tracking
from dualmem.evals.state_tracking import main, statements, track

QUESTION = "What should I do this Saturday, and who is my neighbor?"
SESSIONS = (
    (
        "I live in Trastevere, Rome.",
        "On Saturdays I go to the Porta Portese market.",
        "My neighbor Enzo repairs clocks.",
    ),
    ("I'm moving to Grünerløkka, Oslo for a new job!", "My Saturday routine will be skiing at Frognerseteren."),
    ("Oslo is cold.", "My neighbor Ingrid lends me her sledge.", "The trams are quick."),
    ("I'm relocating to Kadıköy, Istanbul next month.", "Every Saturday I'll take the ferry to Beşiktaş."),
    ("Istanbul is loud.", "My neighbor Deniz plays the saz.", "Tea is everywhere."),
    ("I'm moving to Alameda, Porto because I miss the sea.", "Saturday mornings belong to the fish market."),
)


def scenario(folder: Path, *, sessions: Any = SESSIONS, question: str = QUESTION, name: str = "moves") -> Path:
    """Write a scenario in the benchmark's format; the assistant answers each turn."""
    case = {
        "case_id": name,
        "sessions": [
            {
                "session_id": f"session_{number:02}",
                "topic": "life",
                "messages": [
                    message
                    for turn in turns
                    for message in ({"role": "user", "content": turn}, {"role": "assistant", "content": "Lovely!"})
                ],
            }
            for number, turns in enumerate(sessions, start=1)
        ],
        "queries": [{"question": question, "reference_answer": {"text": "The fish market."}}],
    }
    path = folder / "state_tracking" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(case, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"candidate_similarity": 0.35},
        {"window_turns": 4},
        {"window_turns": 3, "batch_windows": 1, "window_overlap": 2},
        {"evolution": False},
        {"merge": "compact"},
        {"decision_drafts": 2},
    ],
)
async def test_the_current_state_is_in_force_and_every_earlier_one_reachable(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    done = await track(scenario(tmp_path), **options)
    assert done.problems == ()
    assert {attribute: len(states) for attribute, states in done.expected.items()} == {
        "home": 4,
        "saturday": 4,
        "neighbor": 3,
    }
    assert done.expected["home"][-1] == "The home of the user is in Alameda, Porto."


async def test_few_calls_are_made(tmp_path: Path) -> None:
    done = await track(scenario(tmp_path))
    assert done.calls == {"extract": 1, "consolidate": 1, "evolve": 1}


async def test_what_is_said_again_is_no_new_state(tmp_path: Path) -> None:
    again = ((*SESSIONS[0], "I live in Trastevere, Rome."), SESSIONS[1], ("I live in Grünerløkka, Oslo.",))
    assert (await track(scenario(tmp_path, sessions=again))).problems == ()


async def test_a_memory_that_relates_nothing_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_tracking, "_decide", lambda _: {"decisions": []})
    problems = (await track(scenario(tmp_path))).problems
    assert len(problems) == 3
    assert "instead of" in problems[0]


async def test_a_memory_that_loses_history_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def head_only(self: Any, memory_id: str, *, user_id: str) -> Any:
        return [await self.memory(memory_id, user_id=user_id)]

    monkeypatch.setattr("dualmem.memory.DualMem.history", head_only)
    assert "can be reached" in (await track(scenario(tmp_path))).problems[0]


def test_only_what_is_asked_for_is_tracked() -> None:
    said = "I'm moving to Gion, Kyoto for my studies, and Saturday breakfast will be rice!"
    assert statements(said, []) == [("home", "The home of the user is in Gion, Kyoto.")]
    assert [attribute for attribute, _ in statements(said, ["saturday", "breakfast"])] == [
        "home",
        "saturday",
        "breakfast",
    ]


def test_the_command_prints_each_scenario_and_the_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario(tmp_path)
    scenario(tmp_path, name="stays", sessions=SESSIONS[:1])
    assert main([str(tmp_path)]) == 0
    *lines, total = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["scenario"] for line in lines] == ["moves", "stays"]
    assert total == "2 of 2 scenarios, 14 states"
    monkeypatch.setattr(state_tracking, "_decide", lambda _: {"decisions": []})
    assert main([str(tmp_path)]) == 1


async def test_what_is_no_scenario_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[{"role": "user", "content": "hi"}]', encoding="utf-8")
    with pytest.raises(InputError, match="no queries"):
        await track(path)
