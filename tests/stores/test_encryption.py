"""A store whose texts are encrypted: it does what a plain one does, and opens by its own key alone."""

from __future__ import annotations

import base64
import json
import re
import stat
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmem import DualMem, Scope
from dualmem.embedding import Embedder
from dualmem.errors import ConfigurationError, KeyMismatch, StoreError
from dualmem.rebuilding import copy_store
from dualmem.stores.backend import Condition, Filter, Point, Sparse
from dualmem.stores.commit import Commit
from dualmem.stores.edge import EdgeBackend
from dualmem.stores.encryption import HASHED, SEALED, Cipher, EncryptedBackend
from dualmem.stores.keys import EncryptionKey, write_new_key
from dualmem.stores.payload import CONTROL, MEMORIES, TURNS, is_any, of_user, specs
from dualmem.stores.qdrant import QdrantBackend
from dualmem.stores.store import Store
from dualmem.testing import WordEmbeddings

Make = Callable[..., Any]
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = "ab" * 32
LINES = (
    "Ana: Ana lives in Berlin.",
    "Bot: Ana owns a boat.",
    "Ana: Ana lives in Porto.",
    "Ana: Do you know the harbour there?",
    "Cyd: Cyd works at the harbour.",
)


@pytest.fixture
def opened(tmp_path: Path, reader: Make) -> Callable[..., DualMem]:
    def make(key: str | None = KEY, store: str = "store", **options: Any) -> DualMem:
        return DualMem(
            store=str(tmp_path / store),
            chat_model=reader(),
            embeddings=WordEmbeddings(),
            encryption_key=key,
            **options,
        )

    return make


async def all_of(memory: DualMem) -> dict[str, Any]:
    """Return everything that can be asked of a store, in one value."""
    store = memory.resources.store
    assert await store.open(create=False)
    listing, where = store.listing, of_user("ana")
    fields = ("user_id", "conversation_id", "state", "kind", "speaker", "entity_keys", "topic", "relations")
    clock = {"recorded_at"}
    return {
        "turns": [one.model_dump(exclude=clock) for one in await store.turns("ana")],
        "memories": [
            {
                **one.model_dump(exclude=clock),
                "links": [(link.relation, link.target, link.reason) for link in one.links],
            }
            for one in await memory.memories(user_id="ana", states=())
        ],
        "counts": {field: await listing.values(field, where) for field in fields},  # type: ignore[arg-type] # all of them
        "page": [one.id for one in await listing.memories(where, offset=1, limit=2)],
        "part": [one.id for one in await listing.turns("ana", "second", start=1, limit=2)],
        "conversations": await store.conversations("ana"),
        "users": await store.users(),
        "of cyd": [one.text for one in await store.memories(of_user("ana", is_any("speaker", "Cyd")))],
        "not of cyd": [
            one.text for one in await store.memories(of_user("ana", Condition("speaker", none_of=("Cyd",))))
        ],
        "rejected": [one.text for one in await store.rejections("ana", "second")],
        "doctor": [fault for one in await memory.doctor() for fault in one.faults],
    }


SCOPES = (
    None,
    Scope(speakers=("Cyd",)),
    Scope(entities=("ana",)),
    Scope(conversation_ids=("second",)),
    Scope(as_of=datetime(2024, 3, 2, 12, tzinfo=UTC)),
)


async def test_it_does_what_a_plain_store_does(opened: Callable[..., DualMem], chat_of: Make) -> None:
    seen = []
    for key in (None, KEY):
        async with opened(key, f"store {key is None}") as memory:
            await memory.remember(chat_of(*LINES), user_id="ana", conversation_id="first")
            await memory.remember(chat_of(*LINES[:3], start=30), user_id="ana", conversation_id="second")
            await memory.remember(chat_of("Ana: Ana lives in Rome."), user_id="bea", conversation_id="first")
            state = await all_of(memory)
            found = [
                [(item.text, item.status) for item in await memory.search(question, user_id="ana", scope=scope)]
                for question in ("Where does Ana live?", "Who works at the harbour?", "boat")
                for scope in SCOPES
            ]
            (told,) = [
                one for one in await memory.memories(user_id="ana") if "boat" in one.text and one.links == ()
            ] or [(await memory.memories(user_id="ana"))[0]]
            receipt = await memory.forget(user_id="ana", conversation_id="second")
            seen.append((state, found, told.text, receipt, await all_of(memory)))
    plain, encrypted = seen
    assert encrypted == plain
    assert plain[1][0]


async def test_only_what_filters_need_reaches_the_database(opened: Callable[..., DualMem], chat_of: Make) -> None:
    async with opened() as memory:
        await memory.remember(chat_of(*LINES), user_id="ana")
        backend = memory.resources.store._backend
        assert isinstance(backend, EncryptedBackend)
        stored = [row for name in (TURNS, MEMORIES, CONTROL) for _, row in await backend.inner.scroll(name, Filter())]
    words = {word for line in LINES for word in line.rstrip(".?").replace(":", "").split() if len(word) > 2} | {"chat"}
    shown = json.dumps(stored)
    assert [word for word in words if re.search(rf"\b{word}\b", shown)] == []
    for row in stored:
        if row.get("what") != "identity":
            assert [row[field] for field in HASHED & set(row) if row[field] and len(str(row[field])) < 32] == []


async def test_a_record_cannot_be_put_in_the_place_of_another(opened: Callable[..., DualMem], chat_of: Make) -> None:
    async with opened() as memory:
        for user in ("ana", "bea"):
            await memory.remember(chat_of(f"Ana: {user} owns a boat.", f"Ana: {user} owns a house."), user_id=user)
        backend = memory.resources.store._backend
        assert isinstance(backend, EncryptedBackend)
        (first, one), (second, two) = (await backend.inner.scroll(MEMORIES, of_user("ana")))[:2]
        await backend.inner.set_payload(MEMORIES, [first], {SEALED: two[SEALED]})
        with pytest.raises(StoreError, match=f"record {first} .*cannot be decrypted"):
            await memory.memories(user_id="ana")
        await backend.inner.set_payload(MEMORIES, [first], {SEALED: one[SEALED]})
        assert len(await memory.memories(user_id="ana")) == 2
        # Neither can it be given to another user, be damaged, or stand there unencrypted.
        for change in (
            {"user_id": "bea"},
            {SEALED: one[SEALED][:-8] + "AAAAAAA="},
            {SEALED: "no base64"},
            {SEALED: ""},
            {SEALED: None},
        ):
            await backend.inner.set_payload(MEMORIES, [first], change)
            with pytest.raises(StoreError, match="cannot be decrypted"):
                await memory.memories(user_id=change.get("user_id") or "ana")
            await backend.inner.set_payload(MEMORIES, [first], {"user_id": "ana", SEALED: one[SEALED]})
        assert len(await memory.memories(user_id="ana")) == 2


@pytest.mark.parametrize(
    ("made_with", "opened_with", "told"),
    [
        (KEY, OTHER, "encrypted with another key.*DUALMEM_ENCRYPTION_KEY"),
        (KEY, None, "no key is set.*DUALMEM_ENCRYPTION_KEY"),
        (None, KEY, "is not encrypted, and a key is set.*dualmem reembed"),
    ],
)
async def test_the_wrong_key_is_told_and_loses_nothing(
    opened: Callable[..., DualMem],
    chat_of: Make,
    tmp_path: Path,
    made_with: str | None,
    opened_with: str | None,
    told: str,
) -> None:
    async with opened(made_with) as memory:
        await memory.remember(chat_of(*LINES), user_id="ana")
        before = await all_of(memory)
    async with opened(opened_with) as memory:
        for work in (
            memory.remember(chat_of("Ana: Ana has a dog."), user_id="ana"),
            memory.search("Where?", user_id="ana"),
            memory.forget(user_id="ana", everything=True),
            memory.compact(),
        ):
            with pytest.raises(KeyMismatch, match=told) as refused:
                await work
            assert str(tmp_path / "store") in str(refused.value)
            assert not any(key in str(refused.value) for key in (KEY, OTHER))
    async with opened(made_with) as memory:
        assert await all_of(memory) == before


async def test_another_key_takes_the_place_of_the_first(
    opened: Callable[..., DualMem], chat_of: Make, tmp_path: Path
) -> None:
    async with opened() as memory:
        assert not await memory.resources.store.rekey(EncryptionKey(OTHER))
        await memory.remember(chat_of(*LINES), user_id="ana")
        before = await all_of(memory)
        backend = memory.resources.store._backend
        assert isinstance(backend, EncryptedBackend)
        mark = [row["encryption"] for _, row in await backend.inner.scroll(CONTROL, Filter()) if "encryption" in row]
        old = mark[0]["data_key"].encode()
        files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
        assert any(old in path.read_bytes() for path in files)
        assert await memory.resources.store.rekey(EncryptionKey(OTHER))
        assert await all_of(memory) == before, "who has it open goes on"
    async with opened() as memory:
        with pytest.raises(KeyMismatch):
            await memory.memories(user_id="ana")
    async with opened(OTHER) as memory:
        assert await all_of(memory) == before
    assert not any(old in path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    async with opened(None, "plain") as memory:
        await memory.remember(chat_of(*LINES), user_id="ana")
        with pytest.raises(KeyMismatch, match="dualmem reembed"):
            await memory.resources.store.rekey(EncryptionKey(KEY))


@pytest.mark.parametrize(("source", "target"), [(None, KEY), (KEY, None), (KEY, OTHER)])
async def test_a_copy_may_be_encrypted_otherwise(
    opened: Callable[..., DualMem], chat_of: Make, source: str | None, target: str | None
) -> None:
    async with opened(source) as old, opened(target, "copy") as new:
        await old.remember(chat_of(*LINES), user_id="ana", conversation_id="second")
        await copy_store(old.resources.store, new.resources.store)
        await copy_store(old.resources.store, new.resources.store)
        assert await all_of(new) == await all_of(old)


async def test_an_export_is_plain_and_can_be_imported(opened: Callable[..., DualMem], chat_of: Make) -> None:
    async with opened() as old, opened(OTHER, "copy") as new:
        await old.remember(chat_of(*LINES), user_id="ana")
        lines = [line async for line in old.export(user_id="ana")]
        assert "Porto" in "".join(lines)
        await new.load(lines)
        assert {one.text for one in await new.memories(user_id="ana")} == {
            one.text for one in await old.memories(user_id="ana")
        }


async def test_a_commit_that_was_cut_short_is_encrypted_and_carried_out(
    opened: Callable[..., DualMem], a_memory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = a_memory("00000000-0000-4000-8000-000000000000", text="Ana owns a boat.")
    async with opened() as memory:
        store = memory.resources.store
        async with store.writer("ana"):
            monkeypatch.setattr(store, "_carry_out", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await store.commit(Commit("ana", new=(made,)))
            monkeypatch.undo()
        backend = store._backend
        assert isinstance(backend, EncryptedBackend)
        assert "boat" not in str(await backend.inner.scroll(CONTROL, Filter()))
        async with store.writer("ana"):
            pass
        assert [one.text for one in await memory.memories(user_id="ana")] == ["Ana owns a boat."]


# The backend


@pytest.fixture(params=["edge", "memory"])
async def backend(request: pytest.FixtureRequest, shared_store: Path) -> AsyncIterator[EncryptedBackend]:
    inner = EdgeBackend(shared_store) if request.param == "edge" else QdrantBackend(":memory:")
    made = EncryptedBackend(inner, EncryptionKey(KEY))
    await made.open(specs(64), create=True)
    with pytest.raises(StoreError, match="not open"):
        await made.upsert(TURNS, [Point(POINT, {"user_id": "ana", "text": "boat"}, {})])
    made.unlock(made.user_key.new_mark())
    yield made
    await made.close()


POINT = "00000000-0000-4000-8000-000000000001"


async def test_a_part_of_a_record_can_be_changed(backend: EncryptedBackend) -> None:
    record = {"user_id": "ana", "text": "boat", "speaker": "Ana", "state": "pending", "position": 1}
    await backend.upsert(TURNS, [Point(POINT, record, {"lexical": Sparse((1, 5), (1.0, 2.0))})])
    missing = "00000000-0000-4000-8000-000000000002"
    for change in ({"state": "read"}, {"text": "ship"}, {"speaker": "Bea", "position": 7}, {"speaker": ""}):
        await backend.set_payload(TURNS, [POINT, missing], change)
        record |= change
        assert await backend.retrieve(TURNS, [POINT, missing]) == {POINT: record}
        assert await backend.count(TURNS, of_user("ana", is_any("speaker", str(record["speaker"])))) == 1
    assert await backend.retrieve(TURNS, [POINT], fields=["text", "state"]) == {
        POINT: {"text": "ship", "state": "read"}
    }
    assert await backend.retrieve(TURNS, [POINT], fields=["state"]) == {POINT: {"state": "read"}}
    assert "ship" not in str(await backend.inner.scroll(TURNS, Filter()))
    assert await backend.facet(TURNS, "state", of_user("ana")) == {"read": 1}
    with pytest.raises(StoreError, match="cannot be stored"):
        await backend.upsert(TURNS, [Point(POINT, {"user_id": "ana", "text": float("nan")}, {})])


async def test_a_filter_may_name_anything(backend: EncryptedBackend) -> None:
    assert await backend.count(TURNS, of_user("ana", is_any("speaker", "\ud800", ""))) == 0


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.floats(0, 9), max_size=20))
def test_words_have_other_numbers_that_only_the_key_tells(weights: dict[int, float]) -> None:
    vector = Sparse(tuple(sorted(weights)), tuple(weights[index] for index in sorted(weights)))
    hidden = Cipher(bytes(32)).terms(vector)
    assert hidden == Cipher(bytes(32)).terms(vector)
    assert list(hidden.indices) == sorted(set(hidden.indices))
    assert sum(hidden.values) == pytest.approx(sum(vector.values))
    assert not vector.indices or hidden.indices != Cipher(bytes(31) + b"1").terms(vector).indices


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.text())), st.binary())
def test_what_is_sealed_opens_for_the_same_record_alone(secret: dict[str, Any], bound_to: bytes) -> None:
    cipher = Cipher(bytes(32))
    try:
        json.dumps(secret, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    sealed = cipher.seal(secret, bound_to)
    assert sealed != cipher.seal(secret, bound_to), "a nonce is never used twice"
    assert cipher.open(sealed, bound_to) == secret
    for key, place in ((bytes(32), bound_to + b"x"), (bytes(31) + b"1", bound_to)):
        with pytest.raises(ValueError, match="not what was"):
            Cipher(key).open(sealed, place)


# The key


def test_a_key_has_several_forms_and_never_shows() -> None:
    forms = (
        KEY,
        KEY.rstrip("="),
        base64.urlsafe_b64encode(bytes(range(32))).decode(),
        bytes(range(32)).hex(),
        f" {KEY}\n",
    )
    keys = [EncryptionKey(form) for form in forms]
    assert len({key.id for key in keys}) == 1
    assert keys[0].id != EncryptionKey(OTHER).id
    assert KEY not in repr(keys[0])
    assert KEY not in str(vars(keys[0]))


@pytest.mark.parametrize(
    "text", ["", "hush", "hush" * 8, "zz" * 32, KEY[:-4], "äöü", base64.b64encode(bytes(33)).decode()]
)
def test_what_is_no_key_is_told_and_not_shown(text: str, dualmem: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="32 bytes") as refused:
        EncryptionKey(text)
    assert not text or text not in str(refused.value)
    if text:
        monkeypatch.setenv("DUALMEM_ENCRYPTION_KEY", text)
        complaint = dualmem("memories", "list", "--user", "ana").complaint
        assert "dualmem new-key" in complaint
        assert text not in complaint


def test_a_key_that_is_no_text_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="encryption_key") as refused:
        DualMem(encryption_key=b"\xff\xfehush-hush")
    assert "hush" not in str(refused.value)


def test_a_key_comes_from_a_file(
    dualmem: Make, scripted: Make, reader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(reader())
    file, store = tmp_path / "dualmem.key", str(tmp_path / "store")
    assert "keep a copy" in dualmem("new-key", str(file)).out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert "never overwritten" in dualmem("new-key", str(file)).complaint
    assert file.read_text() == text
    assert "cannot be written" in dualmem("new-key", str(tmp_path / "none" / "key")).complaint
    monkeypatch.setenv("DUALMEM_ENCRYPTION_KEY_FILE", str(file))
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "user", "content": "Ana owns a boat."}]))
    assert dualmem("ingest", str(chat), "--user", "ana", "--store", store).status == 0
    shown = dualmem("config", "--json").out + dualmem("config").out
    assert text.strip() not in shown
    new = tmp_path / "new.key"
    dualmem("new-key", str(new), "--json")
    assert str(new) in dualmem("rekey", str(new), "--store", store).out
    assert "another key" in dualmem("memories", "list", "--user", "ana", "--store", store).complaint
    monkeypatch.setenv("DUALMEM_ENCRYPTION_KEY_FILE", str(new))
    assert "boat" in dualmem("memories", "list", "--user", "ana", "--store", store).out
    assert "nothing is stored" in dualmem("rekey", str(new), "--store", str(tmp_path / "empty")).out
    monkeypatch.setenv("DUALMEM_ENCRYPTION_KEY", KEY)
    assert "unset one" in dualmem("memories", "list", "--user", "ana", "--store", store).complaint
    monkeypatch.delenv("DUALMEM_ENCRYPTION_KEY")
    new.write_bytes(b"\xff")
    assert "no text" in dualmem("memories", "list", "--user", "ana", "--store", store).complaint
    new.unlink()
    assert "cannot be read" in dualmem("memories", "list", "--user", "ana", "--store", store).complaint


@pytest.mark.parametrize("way", ["encrypt", "other key", "decrypt"])
def test_a_store_is_made_anew_with_another_key(
    dualmem: Make, scripted: Make, reader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    from dualmem.cli import reembedding

    scripted(reader())
    words = WordEmbeddings()
    monkeypatch.setattr(reembedding, "make_embedder", lambda *_: Embedder(words, name=words.model_name))
    old, new, store = tmp_path / "old.key", tmp_path / "new.key", str(tmp_path / "store")
    write_new_key(old)
    write_new_key(new)
    monkeypatch.setenv("DUALMEM_STORE", store)
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "user", "content": "Ana owns a boat."}]))
    monkeypatch.setenv("DUALMEM_ENCRYPTION_KEY_FILE", "" if way == "encrypt" else str(old))
    dualmem("ingest", str(chat), "--user", "ana")
    monkeypatch.setenv("DUALMEM_ENCRYPTION_KEY_FILE", "" if way == "decrypt" else str(new))
    assert dualmem("memories", "list", "--user", "ana").complaint
    if way != "encrypt":
        assert "key" in dualmem("reembed").complaint
    assert dualmem("reembed", "--old-key-file", str(old)).status == 0
    assert "boat" in dualmem("memories", "list", "--user", "ana").out
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert any(b"boat" in path.read_bytes() for path in files) == (way == "decrypt")


async def test_a_store_object_needs_its_package(
    opened: Callable[..., DualMem], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    async with opened() as memory:
        with pytest.raises(ConfigurationError, match=r"dualmem\[encrypt\]"):
            await memory.remember([("user", "Hello.")], user_id="ana")


def test_of_two_that_make_a_store_at_once_the_second_is_told() -> None:
    """The record of the first stays; whoever came with another key must not write."""
    import asyncio

    async def work() -> None:
        backend = QdrantBackend(":memory:")
        embedder = Embedder(WordEmbeddings(), name="words", dimension=64)
        stores = [Store(backend, embedder, key=EncryptionKey(key) if key else None) for key in (KEY, OTHER, None)]
        done = await asyncio.gather(*(store.open(create=True) for store in stores), return_exceptions=True)
        assert [one for one in done if one is True] == [True]
        assert sum(isinstance(one, KeyMismatch) for one in done) == 2

    asyncio.run(work())
