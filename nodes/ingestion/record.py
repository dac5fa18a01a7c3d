"""Store the raw turns, before any model is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from langgraph.runtime import Runtime

from dualmem.cleaning import clean_text, clean_user_id, is_blank
from dualmem.context import Context
from dualmem.errors import EmptyConversation
from dualmem.identity import turn_ids
from dualmem.ingestion.placing import place
from dualmem.ingestion.windows import cut_windows
from dualmem.inputs import transcript_of
from dualmem.loaders import from_messages
from dualmem.records import IngestReceipt, Message, Transcript, Turn, TurnState
from dualmem.state import IngestionState

DEFAULT_CONVERSATION = "default"

ROUND = 2
"""Messages in a round, which `mem0star` extracts from one by one (D-Mem, System 1)."""


async def record(state: IngestionState, runtime: Runtime[Context]) -> IngestionState:
    """Store what is new of the conversation, without what is redacted, and cut the windows to read.

    Without any message, what is pending of the conversation is read.

    Raises:
        InvalidUser: The user id is missing or blank.
        EmptyConversation: There is no message, and nothing is pending.
    """
    context = runtime.context
    user_id = clean_user_id(state.get("user_id"))
    transcript = _transcript(state)
    conversation_id = transcript.conversation_id
    store = context.store
    if not transcript.messages:
        await _refuse_nothing(user_id, conversation_id, context)
    async with store.writer(user_id):
        turns, skipped = _turns(transcript, user_id)
        placed = place(await store.turns(user_id, conversation_id=conversation_id), turns)
        kept = await _redacted(placed.fresh, context)
        await store.move_turns(placed.moved)
        fresh = await store.add_turns(kept)
        stored = await store.turns(user_id, conversation_id=conversation_id)
    settings = context.settings
    by_round = settings.strategy == "mem0star"
    windows = cut_windows(
        stored,
        most_turns=ROUND if by_round else settings.window_turns,
        most_tokens=settings.window_tokens,
        overlap=settings.extraction_history if by_round else settings.window_overlap,
    )
    receipt = IngestReceipt(
        user_id=user_id,
        conversation_id=conversation_id,
        turns_stored=len(fresh),
        turns_known=len(turns) - len(fresh),
        turns_skipped=skipped,
    )
    return {
        "user_id": user_id,
        "conversation_id": conversation_id,
        "windows": windows,
        "next_window": 0,
        # A round sees the memories of the one before it.
        "batch_windows": 1 if by_round else settings.batch_windows,
        "tally": [receipt],
    }


def _transcript(state: IngestionState) -> Transcript:
    transcript, agent_id = transcript_of(state.get("transcript")), clean_text(str(state.get("agent_id") or ""))
    if transcript is not None:
        return transcript.model_copy(update={"agent_id": agent_id}) if agent_id else transcript
    messages, conversation_id = state.get("messages"), state.get("conversation_id") or DEFAULT_CONVERSATION
    if not messages:
        return Transcript(conversation_id=conversation_id, messages=())
    return from_messages(messages, conversation_id=conversation_id).model_copy(update={"agent_id": agent_id})


async def _refuse_nothing(user_id: str, conversation_id: str, context: Context) -> None:
    if await context.store.open(create=False) and await context.store.turns(
        user_id, conversation_id=conversation_id, states=("pending",)
    ):
        return
    message = f"the conversation {conversation_id!r} has no messages to remember"
    raise EmptyConversation(message)


def _turns(transcript: Transcript, user_id: str) -> tuple[list[Turn], dict[str, int]]:
    """Return the turns of a transcript, and how many of its messages no model will be shown, by reason.

    They are counted from 0; where other turns of the conversation are stored, their positions are still to be found.
    """
    skipped = Counter(transcript.skipped)
    ids = turn_ids(user_id, transcript.conversation_id, transcript.messages)
    now = datetime.now(UTC)
    turns: list[Turn] = []
    for turn_id, message in zip(ids, transcript.messages, strict=True):
        if not message.content.strip():
            skipped["empty"] += 1
            continue
        reason = _unread(message)
        if reason:
            skipped[reason] += 1
        state: TurnState = "skipped" if reason else "pending"
        turns.append(
            Turn(
                id=turn_id,
                user_id=user_id,
                conversation_id=transcript.conversation_id,
                position=len(turns),
                speaker=message.name or message.role,
                role=message.role,
                text=message.content,
                said_at=message.timestamp,
                session=message.session,
                source_id=message.id,
                agent_id=transcript.agent_id,
                state=state,
                recorded_at=now,
            )
        )
    return turns, dict(skipped)


async def _redacted(turns: Sequence[Turn], context: Context) -> list[Turn]:
    """Return new turns as they may be stored; their ids are those of what was said, so that it is known again.

    One of which nothing is left is shown to no model.
    """
    texts = await context.resources.redacted([turn.text for turn in turns])
    return [
        turn.model_copy(update={"text": text, "state": "skipped" if is_blank(text) else turn.state})
        for turn, text in zip(turns, texts, strict=True)
    ]


def _unread(message: Message) -> str:
    """Return why a message is stored but never read by a model, or ""."""
    if message.injected:
        return "put there by memory"
    if message.role == "system":
        return "system text"
    if is_blank(message.content):
        return "no words"
    return ""
