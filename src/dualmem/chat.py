"""Ask a chat model for a typed reply.

One place knows how structured output is asked for, how a reply is repaired, how calls are limited, timed and
counted, and which errors leave a model.
"""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.constants import TAG_NOSTREAM
from pydantic import BaseModel

from dualmem.errors import (
    ConfigurationError,
    DualmemError,
    ModelError,
    ModelUnavailable,
    ReplyTruncated,
    UnreadableReply,
)
from dualmem.records import ModelCall
from dualmem.reply import read_reply

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable, RunnableConfig

T = TypeVar("T", bound=BaseModel)

HEAD_START: Final = 0.03
"""Seconds in which requests get under way; what needs no reply is computed in the time after that."""

_REPAIR = "That reply could not be used: {complaint}. Send the whole JSON object again, corrected, and nothing else."
_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens"})
_REFUSED = frozenset({"content_filter", "refusal", "SAFETY"})


@dataclass(frozen=True, slots=True)
class Prompt(Generic[T]):
    """A rendered prompt: its messages, and the form of the reply.

    `schema` is the JSON schema sent to the model. It may bound what `output` leaves open (which ids can be
    cited, how many items), since small models need the bounds.
    """

    step: str
    messages: tuple[BaseMessage, ...]
    output: type[T]
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What came back, and what it cost; more than one call when a repair was needed."""

    value: T
    calls: tuple[ModelCall, ...]


class Chat:
    """A LangChain chat model, with limits, one repair round, and accounting.

    Args:
        model: Any LangChain chat model; or leave it out and give `make`.
        make: Makes the model when it is first needed, in a thread: importing a provider's library and reading its
            certificates block an event loop for a second or more.
        timeout: Limit of one call, in seconds.
        concurrency: Calls at once.
        max_output_tokens: Passed on to models that are called by the OpenAI protocol; None leaves it to them.
        ready: Awaited before each call and outside of its time, for a model that has to be started first.
    """

    def __init__(
        self,
        model: BaseChatModel | None = None,
        *,
        make: Callable[[], BaseChatModel] | None = None,
        timeout: float = 120.0,
        concurrency: int = 8,
        max_output_tokens: int | None = None,
        ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._model = model
        self._make = make
        self._making = threading.Lock()
        self._ready = ready
        self._timeout = timeout
        self._concurrency = concurrency
        self._max_output_tokens = max_output_tokens
        # A semaphore belongs to the event loop that first waits on it.
        self._limits: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def model(self) -> BaseChatModel:
        """The model; making it blocks, so inside of an event loop rather `await load()`.

        Raises:
            ConfigurationError: It cannot be made.
        """
        with self._making:
            if self._model is None:
                if self._make is None:
                    message = "a Chat was made without a model: give it one, or what makes one"
                    raise ConfigurationError(message)
                self._model = self._make()
            return self._model

    async def load(self) -> BaseChatModel:
        """Return the model, after making it in a thread where it is not there yet.

        Raises:
            ConfigurationError: It cannot be made.
        """
        model = self._model
        return model if model is not None else await asyncio.to_thread(lambda: self.model)

    async def ask(
        self,
        prompt: Prompt[T],
        *,
        temperature: float | None = None,
        on_text: Callable[[str], None] | None = None,
        repair: bool = True,
    ) -> Reply[T]:
        """Send `prompt` and return the reply as its output record.

        Args:
            prompt: What is asked.
            temperature: In place of the model's own.
            on_text: Is given the reply as far as it is written, again and again, where the model streams; not the
                reply to a correction.
            repair: Whether one that cannot be read may be corrected, by a second call.

        Raises:
            ModelUnavailable: The call failed, was refused, or took too long.
            ReplyTruncated: The reply was cut off.
            UnreadableReply: Neither the reply nor its correction could be read.
        """
        message, call = await self._call(prompt, prompt.messages, temperature, on_text)
        try:
            return Reply(read_reply(message.text, prompt.output), (call,))
        except UnreadableReply as error:
            if not repair:
                error.calls = (call,)
                raise
            correction = (AIMessage(message.text), HumanMessage(_REPAIR.format(complaint=error)))
        try:
            again, second = await self._call(prompt, (*prompt.messages, *correction), temperature)
        except ModelError as error:
            error.calls = (call, *error.calls)
            raise
        calls = (call, second.model_copy(update={"repaired": True}))
        try:
            return Reply(read_reply(again.text, prompt.output), calls)
        except UnreadableReply as error:
            error.calls = calls
            raise

    async def _call(
        self,
        prompt: Prompt[T],
        messages: Sequence[BaseMessage],
        temperature: float | None,
        on_text: Callable[[str], None] | None = None,
    ) -> tuple[AIMessage, ModelCall]:
        async with self._limit():
            if self._ready is not None:
                await self._ready()
            await self.load()
            started = time.perf_counter()
            # A trace tells by its tag which step a call belongs to; and what steps say to each other, JSON, is nothing
            # for the token stream of a graph around them.
            tags = [f"step:{prompt.step}", TAG_NOSTREAM]
            try:
                runnable = self._runnable(prompt, temperature)
                async with asyncio.timeout(self._timeout):
                    if on_text is not None and _streams(self.model):
                        reply = await _streamed(
                            runnable, messages, {"tags": tags}, on_text, usage=is_openai(self.model)
                        )
                    else:
                        reply = await runnable.ainvoke(list(messages), {"tags": tags})
            except TimeoutError as error:
                message = f"{prompt.step}: no reply from the model within {self._timeout:g} s"
                raise ModelUnavailable(message) from error
            except DualmemError:
                raise
            except Exception as error:  # the clients of providers have no class of errors in common
                raise _translate(prompt.step, error) from error
            seconds = time.perf_counter() - started
        reply = _raw(reply)
        call = _account(prompt.step, reply, seconds)
        reason = str(reply.response_metadata.get("finish_reason") or reply.response_metadata.get("stop_reason"))
        if reason in _CUT_OFF:
            message = f"{prompt.step}: the reply was cut off at the output limit"
            raise _paid(ReplyTruncated(message), call)
        if reason in _REFUSED or reply.additional_kwargs.get("refusal"):
            message = f"{prompt.step}: the model refused to reply ({reply.additional_kwargs.get('refusal') or reason})"
            raise _paid(ModelUnavailable(message), call)
        return reply, call

    def _limit(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        return self._limits.setdefault(loop, asyncio.Semaphore(self._concurrency))

    def _runnable(self, prompt: Prompt[T], temperature: float | None) -> Runnable[Any, Any]:
        """Return the model, set up to reply by the prompt's schema in the way it knows best."""
        options: dict[str, Any] = {} if temperature is None else {"temperature": temperature}
        name = prompt.step.replace(".", "_")
        if is_openai(self.model):
            hosted = not getattr(self.model, "openai_api_base", None)
            schema = strict_schema(prompt.schema) if hosted else dict(prompt.schema)
            options["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, "strict": True},
            }
            if self._max_output_tokens is not None:
                options["max_tokens"] = self._max_output_tokens
            return self.model.bind(**options)
        schema = {"title": name, **prompt.schema}
        if _overrides(self.model, "with_structured_output"):
            # Providers refuse or ignore other arguments here, so that a temperature goes into the model itself.
            return _at(self.model, temperature).with_structured_output(schema, include_raw=True)
        if _overrides(self.model, "bind_tools"):
            return self.model.bind_tools([schema], tool_choice="any", **options)
        return self.model.bind(**options) if options else self.model


def _paid(error: ModelError, call: ModelCall) -> ModelError:
    """Return an error with the call that ended in it: it cost what any other costs."""
    error.calls = (call,)
    return error


def _streams(model: BaseChatModel) -> bool:
    """Whether the reply comes as text, bit by bit; arguments of a tool call do not."""
    return is_openai(model) or not (_overrides(model, "with_structured_output") or _overrides(model, "bind_tools"))


async def _streamed(
    runnable: Runnable[Any, Any],
    messages: Sequence[BaseMessage],
    config: RunnableConfig,
    on_text: Callable[[str], None],
    *,
    usage: bool,
) -> Any:
    """Return a reply as the model gives it, and pass on what there is of it each time that more comes.

    Args:
        runnable: The model.
        messages: The prompt.
        config: Of the run.
        on_text: Is given the text so far.
        usage: Ask an OpenAI-compatible server for the token counts, which it leaves out of streams.
    """
    whole: Any = None
    options = {"stream_usage": True} if usage else {}
    async for chunk in runnable.astream(list(messages), config, **options):
        whole = chunk if whole is None else whole + chunk
        on_text(whole.text)
    if whole is None:
        message = "the stream ended before it began"
        raise ModelUnavailable(message)
    return whole


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return `schema` as OpenAI's strict mode takes it.

    Strict mode wants every property required, no additional ones, and knows no string lengths.
    """

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        kept = {key: walk(value) for key, value in node.items() if key not in {"maxLength", "minLength", "default"}}
        if kept.get("type") == "object":
            kept["additionalProperties"] = False
            kept["required"] = list(kept.get("properties", {}))
        return kept

    strict: dict[str, Any] = walk(copy.deepcopy(dict(schema)))
    return strict


def _raw(reply: Any) -> AIMessage:
    """Return the message of a reply, also where `include_raw` wrapped it.

    A tool call's arguments stand in for its content, so that both are read by the same parser.

    Raises:
        ModelUnavailable: The model returned something else than a message.
    """
    message = reply["raw"] if isinstance(reply, dict) else reply
    if not isinstance(message, AIMessage):
        complaint = f"the chat model returned {type(message).__name__} instead of an AIMessage"
        raise ModelUnavailable(complaint)
    if not message.text and message.tool_calls:
        import json  # noqa: PLC0415 - only on this path

        content = json.dumps(message.tool_calls[0]["args"], ensure_ascii=False)
        return message.model_copy(update={"content": content})
    return message


def _account(step: str, reply: AIMessage, seconds: float) -> ModelCall:
    usage = reply.usage_metadata
    if usage is None:
        return ModelCall(step=step, seconds=seconds)
    return ModelCall(
        step=step,
        tokens_in=usage["input_tokens"],
        tokens_out=usage["output_tokens"],
        tokens_cached=usage.get("input_token_details", {}).get("cache_read", 0) or 0,
        seconds=seconds,
    )


def _translate(step: str, error: Exception) -> ModelError:
    """Return our error for a provider's; openai raises on a cut-off reply while parsing it."""
    if type(error).__name__ == "LengthFinishReasonError":
        return ReplyTruncated(f"{step}: the reply was cut off at the output limit")
    detail = " ".join(str(error).split())[:300]
    return ModelUnavailable(f"{step}: the model call failed: {type(error).__name__}: {detail}")


def is_openai(model: object) -> bool:
    """Whether a chat model or embeddings come from langchain-openai, or are built on what does."""
    return any(base.__module__.startswith("langchain_openai.") for base in type(model).__mro__)


def _overrides(model: BaseChatModel, method: str) -> bool:
    """Whether the model's class brings a method of its own, in place of one that every chat model has."""
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - slow to import

    return getattr(type(model), method) is not getattr(BaseChatModel, method)


def _at(model: BaseChatModel, temperature: float | None) -> BaseChatModel:
    """Return the model at another temperature, or as it is where its class has no such field."""
    if temperature is None or "temperature" not in type(model).model_fields:
        return model
    return model.model_copy(update={"temperature": temperature})
