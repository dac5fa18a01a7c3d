"""Memory as tools of a LangChain agent: `recall`, `remember`, `forget`, `list_memories`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, ParamSpec, TypeVar

from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dualmem.errors import InputError, InvalidUser, ModelError, NotFound, StoreError
from dualmem.integrations.blocking import wait_for
from dualmem.integrations.erasing import erase
from dualmem.integrations.users import user_of_run
from dualmem.memory import DualMem
from dualmem.prompting import describe_instant
from dualmem.records import ForgetReceipt, IngestReceipt, Memory, Recollection

if TYPE_CHECKING:
    from pydantic.v1 import ValidationError as OldValidationError

P = ParamSpec("P")
T = TypeVar("T")

NOTES = "notes"
"""The conversation that what the tool `remember` is told belongs to."""

SHOWN_EVIDENCE = 8
"""Evidence lines beneath an answer."""

QuestionArgument = Annotated[str, Field(min_length=1, description="A full question, with names instead of pronouns.")]
StatementArgument = Annotated[
    str,
    Field(min_length=1, description="One clear sentence with names instead of pronouns, in the user's language."),
]
MemoryIdArgument = Annotated[
    str, Field(min_length=4, description="Id of the memory, as list_memories or recall shows it.")
]
AboutArgument = Annotated[str, Field(description="What they should be about; empty for the latest ones.")]
LimitArgument = Annotated[int, Field(ge=1, le=100, description="Most memories to list.")]

_SHORT_ID = 8
"""Characters of an id that a model is shown: enough to name one memory of a user, short enough to copy."""


def memory_tools(memory: DualMem, *, user_id: str | None = None, **options: Any) -> list[BaseTool]:
    """Return the tools `recall`, `remember`, `forget` and `list_memories` over one memory.

    Each works on the memory of the run's user (see `dualmem.integrations.users.user_of_run`), whom no argument
    can name. What goes wrong with a store, a model or an argument comes back as a message that the model can
    read; that no user is known, or that settings are wrong, is the application's error and is raised.

    Args:
        memory: The memory.
        user_id: Fixes the user, for an application with one.
        options: Settings for the calls of `recall` and `remember`, such as `gate="never"`.
    """
    # Name and description are each class's own.
    kinds: tuple[Any, ...] = (RecallTool, RememberTool, ForgetTool, ListMemoriesTool)
    return [kind(memory=memory, fixed_user=user_id, options=dict(options)) for kind in kinds]


def _readable(
    call: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Raise as ToolException what the model can do something about, or can at least tell the user."""

    @wraps(call)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await call(*args, **kwargs)
        except InvalidUser:
            raise
        except (InputError, NotFound) as error:
            raise ToolException(str(error)) from error
        except (ModelError, StoreError) as error:
            message = f"Memory cannot be used at the moment: {error}"
            raise ToolException(message) from error

    return run


def _explain(error: ValidationError | OldValidationError) -> str:
    """Say in one line which arguments of a call were wrong."""
    wrong = [f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors()]
    return f"The call was not understood ({'; '.join(wrong)}). Correct the arguments and call again."


class _MemoryTool(BaseTool):
    """What the four tools share."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: DualMem = Field(exclude=True, repr=False)
    fixed_user: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool | str | Callable[[ToolException], str] | None = True
    handle_validation_error: Any = _explain

    def _user(self) -> str:
        return user_of_run(self.fixed_user)


class Question(BaseModel):
    """Arguments of `recall`."""

    question: QuestionArgument


class RecallTool(_MemoryTool):
    """Answer a question from memory; the artifact is the Recollection."""

    name: str = "recall"
    description: str = (
        "Answer a question about the user from long-term memory: what they said, did, like, plan or decided in "
        "earlier conversations. Call it before saying that something is not known."
    )
    args_schema: ClassVar[type[BaseModel]] = Question  # type: ignore[misc] # a field there, one for all tools here

    def _run(self, question: str) -> tuple[str, Recollection]:
        return wait_for(self._recall(question, self._user()))

    async def _arun(self, question: str) -> tuple[str, Recollection]:
        return await self._recall(question, self._user())

    @_readable
    async def _recall(self, question: str, user_id: str) -> tuple[str, Recollection]:
        found = await self.memory.recall(question, user_id=user_id, asked_at=datetime.now(UTC), **self.options)
        return _told(found), found


def _told(found: Recollection) -> str:
    """Return an answer as a model is shown it: the outcome where there is none, else with what it rests on."""
    if found.outcome != "answered":
        return f"{found.answer} ({found.outcome.replace('_', ' ')})"
    lines = [found.answer]
    cited = [item for item in found.evidence if item.cited] or list(found.evidence)
    for item in cited[:SHOWN_EVIDENCE]:
        said = f", said {describe_instant(item.known_at, day_only=True)}" if item.known_at else ""
        name = f"[{item.memory_id[:_SHORT_ID]}] " if item.memory_id else ""
        lines.append(f"- {name}{item.text} ({item.status}{said})")
    return "\n".join(lines)


class Statement(BaseModel):
    """Arguments of `remember`."""

    statement: StatementArgument


class RememberTool(_MemoryTool):
    """Store a statement and extract memories from it; the artifact is the IngestReceipt.

    It is stored as said by the assistant, who wrote it, in a conversation of its own, and goes through extraction
    and consolidation like anything else that was said.
    """

    name: str = "remember"
    description: str = (
        "Store something about the user in long-term memory. Call it when the user asks to remember something, or "
        "tells something lasting about themselves. Never store what the user did not say."
    )
    args_schema: ClassVar[type[BaseModel]] = Statement  # type: ignore[misc] # a field there, one for all tools here

    def _run(self, statement: str) -> tuple[str, IngestReceipt]:
        return wait_for(self._remember(statement, self._user()))

    async def _arun(self, statement: str) -> tuple[str, IngestReceipt]:
        return await self._remember(statement, self._user())

    @_readable
    async def _remember(self, statement: str, user_id: str) -> tuple[str, IngestReceipt]:
        note = {"role": "assistant", "content": statement, "timestamp": datetime.now(UTC).isoformat()}
        receipt = await self.memory.remember([note], user_id=user_id, conversation_id=NOTES, **self.options)
        if receipt.turns_pending:
            return f"Stored, but not worked into memory yet: {'; '.join(receipt.failures)}", receipt
        if not receipt.memories_made:
            return "Stored; there was nothing new in it.", receipt
        if receipt.quarantined == receipt.memories_made:
            return "Stored, and held back: it reads like an instruction. The user must release it.", receipt
        changed = f" {receipt.superseded} earlier memories were replaced by it." if receipt.superseded else ""
        conflict = f" {receipt.contradicted} earlier memories contradict it." if receipt.contradicted else ""
        return f"Remembered.{changed}{conflict}", receipt


class MemoryId(BaseModel):
    """Arguments of `forget`."""

    memory_id: MemoryIdArgument


class ForgetTool(_MemoryTool):
    """Erase a memory and the turns it comes from; the artifact is a list of ForgetReceipts."""

    name: str = "forget"
    description: str = (
        "Erase a memory for good, with the words it came from. Call it only when the user asks to forget something, "
        "with an id from list_memories."
    )
    args_schema: ClassVar[type[BaseModel]] = MemoryId  # type: ignore[misc] # a field there, one for all tools here

    def _run(self, memory_id: str) -> tuple[str, list[ForgetReceipt]]:
        return wait_for(self._forget(memory_id, self._user()))

    async def _arun(self, memory_id: str) -> tuple[str, list[ForgetReceipt]]:
        return await self._forget(memory_id, self._user())

    @_readable
    async def _forget(self, memory_id: str, user_id: str) -> tuple[str, list[ForgetReceipt]]:
        found = await self.memory.memory(memory_id, user_id=user_id)
        receipts = await erase(self.memory, found)
        turns, memories = (sum(getattr(one, what) for one in receipts) for what in ("turns", "memories"))
        return f"Forgotten: {found.text} (memories erased: {memories}, turns: {turns})", receipts


class Listing(BaseModel):
    """Arguments of `list_memories`."""

    about: AboutArgument = ""
    limit: LimitArgument = 20


class ListMemoriesTool(_MemoryTool):
    """List memories that are in force, with their ids; the artifact is the list of memories."""

    name: str = "list_memories"
    description: str = (
        "List what long-term memory holds about the user, with the ids that forget takes: the latest memories, or "
        "those about something."
    )
    args_schema: ClassVar[type[BaseModel]] = Listing  # type: ignore[misc] # a field there, one for all tools here

    def _run(self, about: str = "", limit: int = 20) -> tuple[str, list[Memory]]:
        return wait_for(self._list(about, limit, self._user()))

    async def _arun(self, about: str = "", limit: int = 20) -> tuple[str, list[Memory]]:
        return await self._list(about, limit, self._user())

    @_readable
    async def _list(self, about: str, limit: int, user_id: str) -> tuple[str, list[Memory]]:
        active = {memory.id: memory for memory in await self.memory.memories(user_id=user_id)}
        if about.strip():
            items = await self.memory.search(about, user_id=user_id, **self.options)
            ids = dict.fromkeys(item.memory_id for item in items if item.memory_id in active)
            chosen = [active[memory_id] for memory_id in ids][:limit]
        else:
            chosen = list(active.values())[-limit:]
        if not chosen:
            return "There are no memories about that." if active else "There are no memories of this user yet.", []
        lines = [
            f"[{memory.id[:_SHORT_ID]}] {memory.text} (said {describe_instant(memory.known_at, day_only=True)})"
            for memory in chosen
        ]
        return "\n".join(lines), chosen
