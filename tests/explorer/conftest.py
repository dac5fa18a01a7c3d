"""A store with everything a page can show, and a client of the explorer over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from dualmem import DualMem
from dualmem.explorer.app import build_app
from dualmem.explorer.guard import Access
from dualmem.identity import memory_id, turn_ids
from dualmem.lifecycle import WorkingSet
from dualmem.loaders import load_file
from dualmem.records import Interval, Memory, Source, Turn
from dualmem.stores.commit import Commit

if TYPE_CHECKING:
    from starlette.applications import Starlette

PORT = 8123
HOST = f"127.0.0.1:{PORT}"

# Of the conversation that is shipped: the turn, the words in it, and what they say.
STATEMENTS: tuple[tuple[str, int, str, str, dict[str, Any]], ...] = (
    ("lisbon", 1, "I live in Lisbon now", "Mara lives in Lisbon.", {"kind": "state", "attribute": "home", "topic": "home", "entities": ("Lisbon",)}),
    ("teacher", 3, "I work as a teacher at a language school", "Mara works as a teacher at a language school.", {"kind": "state", "attribute": "job", "topic": "work"}),
    ("brothers", 5, "I have two brothers, Leo and Jan", "Mara has two brothers, Leo and Jan.", {"attribute": "siblings", "topic": "family", "entities": ("Leo", "Jan")}),
    ("marathon", 8, "Yesterday I ran my first half marathon", "Mara ran her first half marathon.", {"kind": "event", "topic": "sport", "valid": Interval(start=datetime(2024, 4, 14, tzinfo=UTC), end=datetime(2024, 4, 14, 23, 59, tzinfo=UTC), precision="day")}),
    ("vase", 10, "I dropped the blue vase that my grandmother had given me", "Mara dropped the blue vase from her grandmother.", {"kind": "event", "topic": "home"}),
    ("tea", 12, "I drink tea instead of wine to calm down these days", "Mara drinks tea instead of wine.", {"kind": "preference", "topic": "drinks"}),
    ("porto", 13, "I moved to Porto last week", "Mara lives in Porto, near the river.", {"kind": "state", "attribute": "home", "topic": "home", "entities": ("Porto",), "valid": Interval(start=datetime(2024, 6, 10, tzinfo=UTC), precision="day")}),
    ("translator", 15, "Now I work as a translator, all from home", "Mara works as a translator from home.", {"kind": "state", "attribute": "job", "topic": "work"}),
    ("bridge", 17, "I even have a room for guests, with a view of the bridge", "Mara has a guest room with a view of the bridge.", {"topic": "home"}),
    ("only", 20, "I am an only child, I have no brothers", "Mara is an only child.", {"attribute": "siblings", "topic": "family"}),
    ("cat", 22, "I have a cat now! His name is Fado", "Mara has a cat called Fado.", {"topic": "pets", "entities": ("Fado",)}),
    ("dates", 24, "Please always write dates with the day first", "Mara wants dates with the day first.", {"kind": "preference", "standing": True, "topic": "style"}),
    ("ticket", 25, "I bought the train ticket to see my old neighbour Carlos in Lisbon", "Mara bought a train ticket to see Carlos in Lisbon.", {"kind": "event", "topic": "travel", "entities": ("Carlos", "Lisbon")}),
    ("visit", 27, "On 18 October, for three days", "Mara will visit Carlos on 18 October for three days.", {"kind": "plan", "topic": "travel", "entities": ("Carlos",), "valid": Interval(start=datetime(2024, 10, 18, tzinfo=UTC), end=datetime(2024, 10, 20, 23, 59, tzinfo=UTC), precision="day")}),
)  # fmt: skip


async def remember_mara(memory: DualMem, user_id: str = "mara") -> dict[str, Memory]:
    """Store the conversation that is shipped with what a good model would make of it; return memories by short name."""
    with as_file(files("dualmem") / "demo" / "conversation.json") as path:
        (transcript,) = load_file(path)
    now = datetime(2024, 11, 1, 9, 30, tzinfo=UTC)
    keys = turn_ids(user_id, transcript.conversation_id, transcript.messages)
    turns = [
        Turn(
            id=key,
            user_id=user_id,
            conversation_id=transcript.conversation_id,
            position=position,
            speaker=message.name or message.role,
            role=message.role,
            text=message.content,
            said_at=message.timestamp,
            session=message.session,
            # The last was not read yet.
            state="pending" if position == len(transcript.messages) - 1 else "read",
            recorded_at=now,
        )
        for position, (key, message) in enumerate(zip(keys, transcript.messages, strict=True))
    ]
    working = WorkingSet()
    names: dict[str, str] = {}
    for name, number, quote, text, fields in STATEMENTS:
        turn = turns[number - 1]
        assert turn.said_at is not None
        values: dict[str, Any] = {"kind": "fact", **fields}
        made = Memory(
            id=memory_id(user_id, text, [turn.id]),
            user_id=user_id,
            conversation_id=turn.conversation_id,
            text=text,
            speaker=turn.speaker,
            subject="Mara",
            known_at=turn.said_at,
            recorded_at=now,
            sources=(Source(turn_id=turn.id, quote=quote),),
            position=turn.position,
            **values,
        )
        working.add(made)
        names[name] = made.id
    at = now
    assert not working.supersede(names["porto"], names["lisbon"], reason="She moved to Porto.", at=at)
    assert not working.supersede(names["translator"], names["teacher"], reason="She quit her job as a teacher.", at=at)
    assert not working.contradict(names["brothers"], names["only"], reason="Two brothers, or none.", at=at)
    assert not working.merge(names["ticket"], names["visit"], reason="Both are about the visit to Carlos.", at=at)
    store = memory.resources.store
    async with store.writer(user_id):
        await store.add_turns(turns)
        await store.index_turns(user_id, transcript.conversation_id)
        await store.commit(Commit(user_id, tuple(working.memories[key] for key in working.new)))
    return {name: working.memories[key] for name, key in names.items()}


@pytest.fixture
def like_mara() -> Callable[..., Any]:
    """Store the conversation that is shipped, for any user."""
    return remember_mara


@dataclass(frozen=True)
class Browser:
    """A client that has the cookie, and sends what a browser sends."""

    client: httpx.AsyncClient
    access: Access
    app: Starlette

    async def get(self, path: str, **query: Any) -> httpx.Response:
        """Load a page."""
        return await self.client.get(path, params=query)

    async def post(self, path: str, *, csrf: str | None = None, **form: Any) -> httpx.Response:
        """Send a form of a page."""
        token = self.access.csrf if csrf is None else csrf
        return await self.client.post(path, data={"csrf": token, **form}, headers={"Origin": f"http://{HOST}"})


@pytest.fixture
async def explore() -> AsyncIterator[Callable[..., Any]]:
    """Make clients of the explorer of a memory; `enter=False` leaves the link unused."""
    opened: list[httpx.AsyncClient] = []

    async def make(memory: DualMem, *, enter: bool = True, **options: Any) -> Browser:
        access = Access(PORT)
        app = build_app(memory, access, **options)
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{HOST}")
        opened.append(client)
        if enter:
            answer = await client.get(access.url())
            assert answer.status_code == 303
        return Browser(client, access, app)

    yield make
    for client in opened:
        await client.aclose()


@pytest.fixture
async def mara(open_memory: Callable[..., DualMem]) -> tuple[DualMem, dict[str, Memory]]:
    """A memory of the user mara, and her memories by short name."""
    memory = open_memory()
    return memory, await remember_mara(memory)
