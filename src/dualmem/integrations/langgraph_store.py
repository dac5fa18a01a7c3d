"""The memories through LangGraph's store interface, for code that was written for a store.

What maps to what:

- A namespace is one user's memories. Its form is fixed when the store is made: `("{user_id}", "memories")`, or
  `("memories", "{user_id}")` as LangMem has it. Other namespaces are refused. LangGraph allows no dot in a part:
  write `%2E` for one in a user id, and `%25` for a percent sign.
- `put` stores the value as one turn, word for word, in a conversation of the key's own, and makes one memory of it
  without a model call. A value of a text alone (`{"content": "..."}`) is that text; any other is its JSON. The same
  key again replaces what it held: the new turn is stored first, then the old one is erased, as a store has no
  history.
- `get` gives the value that was put. With the id of a memory as key it gives the memory that was learned from a
  conversation: its text as `content`, and what else is known of it.
- `search` with a query ranks by everything that `DualMem.search` ranks by; a score it has none, the order counts.
  Without a query it lists from the earliest told to the latest. Superseded memories are not found.
- `delete` erases what was put, or a learned memory together with the turns it comes from.
- `list_namespaces` names a namespace for each user.

A value is cleaned like any text that comes in: control characters go, the text of a special token is broken up. An
`index` is not looked at, everything is findable. A `ttl` is not supported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID, uuid4

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from dualmem.cleaning import clean_text, clean_user_id, is_blank
from dualmem.errors import InputError
from dualmem.integrations.blocking import wait_for
from dualmem.integrations.erasing import erase
from dualmem.integrations.namespaces import USER, Namespaces

if TYPE_CHECKING:
    from dualmem.memory import DualMem
    from dualmem.records import Memory

CONVERSATION: Final = "store/"
"""What the conversation of a key begins with."""

_EVERYTHING: Final = 1_000_000
"""A budget that leaves nothing out, in tokens."""

_MOST_RANKED: Final = 500


class DualMemStore(BaseStore):
    """A LangGraph store over a memory.

    Args:
        memory: The memory.
        namespace: The form of a namespace, with `{user_id}` for one part.
        text_key: The key that holds a value's text.

    Raises:
        ConfigurationError: The form has no place for the user.
    """

    supports_ttl = False

    def __init__(
        self, memory: DualMem, *, namespace: tuple[str, ...] = (USER, "memories"), text_key: str = "content"
    ) -> None:
        self._memory = memory
        self._namespaces = Namespaces(namespace)
        self._text_key = text_key

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations, in order."""
        return wait_for(self.abatch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations, in order."""
        return [await self._carry_out(op) for op in ops]

    async def _carry_out(self, op: Op) -> Result:
        match op:
            case GetOp(namespace=namespace, key=key):
                return await self._get(clean_user_id(self._namespaces.user(namespace)), key)
            case PutOp(namespace=namespace, key=key, value=None):
                await self._delete(clean_user_id(self._namespaces.user(namespace)), key)
            case PutOp(namespace=namespace, key=key, value=value):
                await self._put(
                    clean_user_id(self._namespaces.user(namespace)), str(key), cast("dict[str, Any]", value)
                )
            case SearchOp(namespace_prefix=prefix):
                return await self._search(clean_user_id(self._namespaces.user(prefix, prefix=True)), op)
            case ListNamespacesOp():
                return await self._list(op)
        return None

    async def _get(self, user_id: str, key: str) -> Item | None:
        found = await self._find(user_id, key)
        if found is None:
            return None
        item = self._item(found)
        return Item(
            value=item.value,
            key=key,
            namespace=item.namespace,
            created_at=item.created_at,
            updated_at=item.updated_at,
        )

    async def _find(self, user_id: str, key: str) -> Memory | None:
        """Return the active memory that a key names: what was put under it last, or the memory of that id."""
        store = self._memory.resources.store
        if not await store.open(create=False):
            return None
        turns = await store.turns(user_id, conversation_id=CONVERSATION + key)
        if turns:
            found = await store.memories_from_turns(user_id, [turns[-1].id])
        else:
            found = list((await store.memories_by_id(user_id, [key])).values()) if _is_uuid(key) else []
        return next((memory for memory in found if memory.active), None)

    async def _put(self, user_id: str, key: str, value: dict[str, Any]) -> None:
        (text,) = await self._memory.resources.redacted([self._encode(value)])
        store = self._memory.resources.store
        conversation_id = CONVERSATION + key
        before = []
        if await store.open(create=False):
            before = await store.turns(user_id, conversation_id=conversation_id)
        if before and before[-1].text == text:
            return
        said = {"role": "user", "content": text, "timestamp": datetime.now(UTC).isoformat(), "id": str(uuid4())}
        await self._memory.remember([said], user_id=user_id, conversation_id=conversation_id, strategy="verbatim")
        for turn in before:
            await self._memory.forget(user_id=user_id, turn_id=turn.id)

    async def _delete(self, user_id: str, key: str) -> None:
        found = await self._find(user_id, key)
        if found is not None and found.conversation_id == CONVERSATION + key:
            await self._memory.forget(user_id=user_id, conversation_id=found.conversation_id)
        elif found is not None:
            await erase(self._memory, found)

    async def _search(self, user_id: str, op: SearchOp) -> list[SearchItem]:
        if op.query:
            items = await self._memory.search(
                op.query,
                user_id=user_id,
                top_k=min(_MOST_RANKED, max(self._memory.settings.top_k, op.limit + op.offset)),
                context_tokens=_EVERYTHING,
            )
            ids = dict.fromkeys(item.memory_id for item in items if item.memory_id is not None)
            known = await self._memory.resources.store.memories_by_id(user_id, list(ids)) if ids else {}
            found = [known[memory_id] for memory_id in ids if memory_id in known and known[memory_id].active]
        else:
            found = await self._memory.memories(user_id=user_id)
        chosen = {item.key: item for item in map(self._item, found) if _fits(item.value, op.filter or {})}
        return list(chosen.values())[op.offset : op.offset + op.limit]

    async def _list(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        store = self._memory.resources.store
        users = await store.users() if await store.open(create=False) else {}
        found = [self._namespaces.of(user_id) for user_id in sorted(users)]
        found = [one for one in found if all(_meets(one, condition) for condition in op.match_conditions or ())]
        if op.max_depth is not None:
            found = list(dict.fromkeys(one[: op.max_depth] for one in found))
        return found[op.offset : op.offset + op.limit]

    def _item(self, memory: Memory) -> SearchItem:
        put = memory.conversation_id.startswith(CONVERSATION)
        return SearchItem(
            namespace=self._namespaces.of(memory.user_id),
            key=memory.conversation_id.removeprefix(CONVERSATION) if put else memory.id,
            value=self._decode(memory.text) if put else self._learned(memory),
            created_at=memory.known_at,
            updated_at=memory.known_at,
        )

    def _learned(self, memory: Memory) -> dict[str, Any]:
        """Return the value of a memory that came from a conversation."""
        known = memory.model_dump(
            mode="json",
            include={"kind", "speaker", "subject", "attribute", "entities", "topic", "valid", "conversation_id"},
        )
        return {self._text_key: memory.text, **known, "source_turn_ids": list(memory.turn_ids)}

    def _encode(self, value: dict[str, Any]) -> str:
        """Return the text that a value is kept as.

        Raises:
            InputError: It is no JSON, or there is nothing in it.
        """
        text = value.get(self._text_key)
        if isinstance(text, str) and not is_blank(text) and self._decode(clean_text(text)) == value:
            return clean_text(text)
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"a value must be what JSON can write, and this is not: {error}"
            raise InputError(message) from error
        if is_blank(text):
            message = f"there is nothing to remember in {value!r}"
            raise InputError(message)
        return clean_text(text)

    def _decode(self, text: str) -> dict[str, Any]:
        """Return the value that a text was kept for."""
        if text.startswith("{"):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                return {self._text_key: text}
            if isinstance(value, dict):
                return value
        return {self._text_key: text}


def _is_uuid(key: str) -> bool:
    try:
        return str(UUID(key)) == key
    except ValueError:
        return False


def _fits(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell whether a value meets LangGraph's filter: equality, or `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`."""
    return all(_compares(value.get(key), condition) for key, condition in wanted.items())


def _compares(held: Any, condition: Any) -> bool:
    if not (isinstance(condition, Mapping) and condition and all(str(name).startswith("$") for name in condition)):
        return bool(held == condition)
    for name, operand in condition.items():
        match name:
            case "$eq":
                met = held == operand
            case "$ne":
                met = held != operand
            case "$gt" | "$gte" | "$lt" | "$lte":
                met = _ordered(held, name, operand)
            case _:
                message = f"no filter is named {name!r}"
                raise InputError(message)
        if not met:
            return False
    return True


def _ordered(held: Any, name: str, operand: Any) -> bool:
    """Compare as numbers, as LangGraph's stores do; what is no number meets no order."""
    try:
        left, right = float(held), float(operand)
    except (TypeError, ValueError):
        return False
    return {"$gt": left > right, "$gte": left >= right, "$lt": left < right, "$lte": left <= right}[name]


def _meets(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", held) for held, wanted in zip(part, path, strict=True))
