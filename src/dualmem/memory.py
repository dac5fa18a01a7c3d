"""The memory of one application: remember, recall, search, list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from dualmem.cleaning import clean_user_id
from dualmem.clocks import seen_at
from dualmem.config import Settings, load_settings
from dualmem.context import Context, Resources
from dualmem.finding import find_memory, find_turn
from dualmem.records import (
    Answer,
    Estimate,
    EvidenceItem,
    Explanation,
    ForgetReceipt,
    ImportReceipt,
    IngestReceipt,
    Memory,
    MemoryState,
    PackedContext,
    Recollection,
    Rejection,
    Scope,
    Transcript,
    Turn,
    TurnEffects,
    Undone,
)
from dualmem.retrieval.units import chain_of
from dualmem.stores.payload import is_any, of_user

if TYPE_CHECKING:
    from types import TracebackType

    from langchain_core.documents import BaseDocumentCompressor
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langgraph.graph.state import CompiledStateGraph

    from dualmem.checking import Diagnosis
    from dualmem.redaction import Redact
    from dualmem.stores.backend import Backend

# What single methods need is imported by them: an agent that starts does not wait for it.


class DualMem:
    """Long-term memory over one store and one pair of models.

    Opens nothing until it is used. Use it as an async context manager, or call `close`.

    Args:
        settings: What is in force; by default what the environment configures.
        chat_model: A LangChain chat model, or the name of one, in place of the one the settings name.
        embeddings: LangChain embeddings, or the name of a model, in place of those the settings name.
        backend: A vector database, in place of the one the settings name.
        redact: What takes personal data out of each text before it is stored or shown to a model, or its name.
        reranker: A LangChain document compressor that orders evidence where `rerank` is `compressor`.
        options: Single settings, over `settings`.

    Raises:
        ConfigurationError: A setting does not exist or has a value that it cannot have.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        chat_model: BaseChatModel | str | None = None,
        embeddings: Embeddings | str | None = None,
        backend: Backend | None = None,
        redact: Redact | str | None = None,
        reranker: BaseDocumentCompressor | None = None,
        **options: Any,
    ) -> None:
        if isinstance(chat_model, str):
            options["chat_model"], chat_model = chat_model, None
        if isinstance(embeddings, str):
            options["embedding_model"], embeddings = embeddings, None
        if isinstance(redact, str):
            options["redact"], redact = redact, None
        settings = settings.override(options) if settings is not None else load_settings(**options)
        self.resources = Resources(settings, chat_model, embeddings, backend, reranker, redact)

    @property
    def settings(self) -> Settings:
        """What is in force."""
        return self.resources.settings

    @cached_property
    def recall_graph(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The recall graph over this memory, to be run or added to a larger graph."""
        from dualmem.graphs.recall import build_recall_graph  # noqa: PLC0415 - see above

        return build_recall_graph(self.resources)

    @cached_property
    def ingestion_graph(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The ingestion graph over this memory, to be run or added to a larger graph."""
        from dualmem.graphs.ingestion import build_ingestion_graph  # noqa: PLC0415 - see above

        return build_ingestion_graph(self.resources)

    async def __aenter__(self) -> Self:
        """Return this memory."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the store."""
        await self.close()

    async def close(self) -> None:
        """Release the store; what is used afterwards is opened again."""
        await self.resources.close()

    async def remember(
        self,
        messages: Sequence[Any] | Transcript,
        *,
        user_id: str,
        conversation_id: str = "",
        agent_id: str = "",
        **options: Any,
    ) -> IngestReceipt:
        """Store a conversation's turns and extract memories from those that are new.

        Args:
            messages: LangChain messages, `{role, content}` dicts, `(role, text)` pairs, or a transcript.
            user_id: Whose memory it is.
            conversation_id: Which conversation this belongs to; the same messages again are stored once.
            agent_id: Which agent it was had with; a `Scope` can be narrowed to it.
            options: Settings for this call.

        Raises:
            InputError: There is nothing to remember, or no user.
            StoreError: The store cannot be written.
            ConfigurationError: No model is configured.
        """
        given: dict[str, Any] = {"user_id": user_id}
        given |= {"transcript": messages} if isinstance(messages, Transcript) else {"messages": list(messages)}
        if conversation_id:
            given["conversation_id"] = conversation_id
        if agent_id:
            given["agent_id"] = agent_id
        receipt = (await self.ingestion_graph.ainvoke(given, context=self._with(options)))["receipt"]
        assert isinstance(receipt, IngestReceipt)  # noqa: S101 - the graph's output schema
        return receipt

    async def recall(
        self,
        question: str,
        *,
        user_id: str,
        scope: Scope | None = None,
        asked_at: datetime | None = None,
        **options: Any,
    ) -> Recollection:
        """Answer `question` from memory, and from the raw history where the gate is not satisfied.

        Args:
            question: In any language.
            user_id: Whose memory it is.
            scope: Narrows what is looked at.
            asked_at: When it is asked, with a zone; "last month" in the question counts from here.
            options: Settings for this call.

        Raises:
            InputError: There is no question or no user.
            ModelError: No answer could be made at all.
            StoreError: The store cannot be read.
        """
        given: dict[str, Any] = {"user_id": user_id, "question": question}
        if scope is not None:
            given["scope"] = scope
        if asked_at is not None:
            given["asked_at"] = asked_at
        result = await self.recall_graph.ainvoke(given, context=self._with(options))
        recollection = result["recollection"]
        assert isinstance(recollection, Recollection)  # noqa: S101 - the graph's output schema
        return recollection

    async def estimate(
        self,
        question: str,
        *,
        user_id: str,
        scope: Scope | None = None,
        asked_at: datetime | None = None,
        **options: Any,
    ) -> Estimate:
        """Return what `question` would cost at least and at most; no chat model is called.

        The arguments are those of `recall`.

        Raises:
            InputError: There is no question or no user.
            StoreError: The store cannot be read.
        """
        from dualmem.deliberation.estimating import estimate  # noqa: PLC0415 - see above

        context = Context(self._with(options), self.resources)
        return await estimate(question, user_id, context, scope=scope, asked_at=asked_at)

    async def search(
        self,
        question: str,
        *,
        user_id: str,
        scope: Scope | None = None,
        asked_at: datetime | None = None,
        **options: Any,
    ) -> tuple[EvidenceItem, ...]:
        """Return evidence for `question`, best first; no chat model is called."""
        from dualmem.recollecting import evidence_of  # noqa: PLC0415 - see above

        packed = await self._packed(question, user_id, scope, asked_at, options)
        return evidence_of(packed, Answer(text=""))

    async def _packed(
        self, question: str, user_id: str, scope: Scope | None, asked_at: datetime | None, options: dict[str, Any]
    ) -> PackedContext:
        from dualmem.retrieval.packing import pack  # noqa: PLC0415 - see above
        from dualmem.searching.search import search  # noqa: PLC0415 - see above

        context = Context(self._with(options), self.resources)
        asked = await context.redacted(question)
        found = await search(context, clean_user_id(user_id), asked, scope=scope, asked_at=asked_at)
        return pack(found.units, budget=context.settings.context_tokens, dates=context.settings.temporal)

    async def context(
        self,
        question: str,
        *,
        user_id: str,
        scope: Scope | None = None,
        asked_at: datetime | None = None,
        **options: Any,
    ) -> str:
        """Return the evidence for `question` as text for a prompt, "" where there is none; no chat model is called."""
        from dualmem.prompting import evidence_lines, fence  # noqa: PLC0415 - see above

        packed = await self._packed(question, user_id, scope, asked_at, options)
        lines = evidence_lines(packed.units, packed.labels, dates=self._with(options).temporal)
        return fence("memories", lines) if lines else ""

    async def forget(
        self,
        *,
        user_id: str,
        memory_id: str | None = None,
        turn_id: str | None = None,
        conversation_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        everything: bool = False,
    ) -> ForgetReceipt:
        """Erase a memory, a turn, a conversation, what was said in a time, or all of a user.

        Turns take the memories with them that came from them alone. Where what is forgotten had replaced an earlier
        state, that state is in force again, as if the later one had never been said.

        Raises:
            InputError: Nothing is named, or more than one thing.
            NotFound: This user has no such memory or turn.
        """
        from dualmem.forgetting import Selection, forget  # noqa: PLC0415 - see above

        selection = Selection(memory_id, turn_id, conversation_id, since, until, everything)
        return await forget(selection, clean_user_id(user_id), self._context)

    async def memories(
        self,
        *,
        user_id: str,
        states: Sequence[MemoryState] = ("active",),
        as_of: datetime | None = None,
        valid_at: datetime | None = None,
    ) -> list[Memory]:
        """Return a user's memories, from the earliest told to the latest.

        Args:
            user_id: Whose memory it is.
            states: Which ones; empty for all. `quarantined` are those that wait for `release` or `forget`.
            as_of: With the states they had when this was what had been told (the known-at clock).
            valid_at: With the states they had at this time in the world, by what is known (the event clock).
        """
        user_id = clean_user_id(user_id)
        if not await self.resources.store.open(create=False):
            return []
        if as_of is None and valid_at is None:
            conditions = [is_any("state", *states)] if states else []
            return await self.resources.store.memories(of_user(user_id, *conditions))
        seen = seen_at(await self.resources.store.memories(of_user(user_id)), as_of=as_of, valid_at=valid_at)
        found = [memory for memory in seen.values() if not states or memory.state in states]
        return sorted(found, key=lambda memory: memory.told)

    async def memory(self, memory_id: str, *, user_id: str) -> Memory:
        """Return one memory; the start of its id is enough where it is unique.

        Raises:
            NotFound: This user has no such memory.
        """
        return await find_memory(memory_id, clean_user_id(user_id), self._context)

    async def history(self, memory_id: str, *, user_id: str) -> list[Memory]:
        """Return the chain a memory is part of, from its earliest state to the one in force.

        Raises:
            NotFound: This user has no such memory.
        """
        memory = await self.memory(memory_id, user_id=user_id)
        known = await self.resources.store.with_chains(memory.user_id, [memory])
        return chain_of(memory, known)

    async def sources(self, memory: Memory) -> list[Turn]:
        """Return the turns a memory comes from."""
        found = await self.resources.store.turns_by_id(memory.user_id, memory.turn_ids)
        return [found[turn_id] for turn_id in memory.turn_ids if turn_id in found]

    async def why(self, memory_id: str, *, user_id: str) -> Explanation:
        """Return why a memory is as it is: each decision on it, when, from which turns, and with which reason.

        Raises:
            NotFound: This user has no such memory.
        """
        from dualmem.reviewing import explain  # noqa: PLC0415 - see above

        return await explain(await self.memory(memory_id, user_id=user_id), self._context)

    async def undo(self, identifier: str, *, user_id: str) -> Undone:
        """Take a decision of the lifecycle back; nobody decides it again by itself.

        Args:
            identifier: The id of a decision (`why` shows it), or of a memory: then what took it out of force is taken
                back, or else the only decision on it. The start is enough where it is unique.
            user_id: Whose memory it is.

        Raises:
            NotFound: This user has no such decision or memory.
            InputError: The memory is part of no decision, or of several.
        """
        from dualmem.reviewing import undo  # noqa: PLC0415 - see above

        return await undo(identifier, clean_user_id(user_id), self._context)

    async def release(self, memory_id: str, *, user_id: str, **options: Any) -> Memory:
        """Keep a memory like any other that reads like an instruction, and return it; a quarantined one is in force.

        Raises:
            NotFound: This user has no such memory.
            InputError: It is not marked.
            ModelError: A model could not be reached; nothing was changed.
        """
        from dualmem.reviewing import release  # noqa: PLC0415 - see above

        return await release(memory_id, clean_user_id(user_id), Context(self._with(options), self.resources))

    async def turn(self, turn_id: str, *, user_id: str) -> Turn:
        """Return one turn; the start of its id is enough where it is unique.

        Raises:
            NotFound: This user has no such turn.
        """
        return await find_turn(turn_id, clean_user_id(user_id), self._context)

    async def from_turn(self, turn_id: str, *, user_id: str) -> TurnEffects:
        """Return what came of a turn, and so what would go with it.

        Raises:
            NotFound: This user has no such turn.
        """
        from dualmem.reviewing import effects_of  # noqa: PLC0415 - see above

        return await effects_of(await self.turn(turn_id, user_id=user_id), self._context)

    async def rejections(self, *, user_id: str, conversation_id: str | None = None) -> list[Rejection]:
        """Return the drafts that ingestion refused, with their reasons and turns, from the first to the last.

        Args:
            user_id: Whose memory it is.
            conversation_id: Only those of this conversation, of which the latest hundred are kept.
        """
        user_id = clean_user_id(user_id)
        if not await self.resources.store.open(create=False):
            return []
        return await self.resources.store.rejections(user_id, conversation_id)

    async def doctor(self, *, user_id: str | None = None, repair: bool = False) -> list[Diagnosis]:
        """Check what is stored against the rules, and mend it where `repair` is set.

        Args:
            user_id: Whose memory is checked; by default everybody's.
            repair: Mend links, states, positions and indexes; text and sources stay.

        Raises:
            ModelUnavailable: Something has to be embedded, and the embedding model failed.
        """
        if not await self.resources.store.open(create=False):
            return []
        users = [clean_user_id(user_id)] if user_id is not None else sorted(await self.resources.store.users())
        from dualmem.checking import diagnose  # noqa: PLC0415 - see above

        return [await diagnose(one, self._context, repair=repair) for one in users]

    async def compact(self) -> bool:
        """Write an embedded store's files anew, without what was forgotten; return whether there is a store."""
        return await self.resources.store.compact()

    async def resume(self, *, user_id: str, **options: Any) -> list[IngestReceipt]:
        """Extract memories from the turns that are pending, conversation by conversation.

        Raises:
            StoreError: The store cannot be written.
            ConfigurationError: No model is configured.
        """
        user_id = clean_user_id(user_id)
        if not await self.resources.store.open(create=False):
            return []
        pending = await self.resources.store.turns(user_id, states=("pending",))
        conversations = dict.fromkeys(turn.conversation_id for turn in pending)
        return [await self.remember([], user_id=user_id, conversation_id=one, **options) for one in conversations]

    async def reextract(
        self, *, user_id: str, conversation_id: str | None = None, **options: Any
    ) -> list[IngestReceipt]:
        """Extract memories from the raw turns again, as after a change of prompts or models.

        What was extracted from these turns alone goes, with the decisions on it, as what is new comes, batch by batch.
        Where the model fails, the turns stay pending and what was known of them stays; `resume` takes them up.

        Raises:
            StoreError: The store cannot be written.
            ConfigurationError: No model is configured.
        """
        user_id = clean_user_id(user_id)
        # A model that is not configured must be known before anything is taken out.
        self.resources.chat(self._with(options))
        from dualmem.rebuilding import set_back  # noqa: PLC0415 - see above

        done = await set_back(user_id, self._context, conversation_id=conversation_id)
        return [await self.remember([], user_id=user_id, conversation_id=one, **options) for one in done]

    def export(self, *, user_id: str) -> AsyncIterator[str]:
        """Yield all that is remembered of a user as JSON lines (docs/transfer.md)."""
        from dualmem.transfer import exported  # noqa: PLC0415 - see above

        return exported(clean_user_id(user_id), self._context)

    async def load(self, lines: Iterable[str], *, user_id: str = "") -> ImportReceipt:
        """Store what an export holds; what is there already stays, so that it can be repeated.

        Args:
            lines: The lines of an export.
            user_id: Whose memory it becomes; by default the one whose it was.

        Raises:
            InputError: A line is no part of an export, or some are missing; nothing was written.
        """
        from dualmem.transfer import import_lines  # noqa: PLC0415 - see above

        return await import_lines(lines, self._context, user_id=clean_user_id(user_id) if user_id else "")

    @property
    def _context(self) -> Context:
        return Context(self.settings, self.resources)

    def _with(self, options: dict[str, Any]) -> Settings:
        return self.settings.override(options) if options else self.settings
