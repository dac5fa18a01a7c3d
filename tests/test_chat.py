"""Asking a chat model: structured output, repair, limits, accounting and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import BaseModel, Field

from dualmem.chat import Chat, Prompt, strict_schema
from dualmem.errors import ConfigurationError, ModelUnavailable, ReplyTruncated, UnreadableReply


class Place(BaseModel):
    city: str


SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40}}, "required": ["city"]}
PROMPT = Prompt(
    step="gate.majority",
    messages=(SystemMessage("rules"), HumanMessage("Where?")),
    output=Place,
    schema=SCHEMA,
)
PORTO = '{"city": "Porto"}'
BAD = '{"town": "Porto"}'


class FakeModel(BaseChatModel):
    """Replies in turn, and keeps what it was called with; async as real clients are."""

    replies: list[Any]
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    options: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.seen.append(messages)
        self.options.append(kwargs)
        reply = self.replies[len(self.seen) - 1]
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            reply = await reply()
        message = AIMessage(reply) if isinstance(reply, str) else reply
        return ChatResult(generations=[ChatGeneration(message=message)])


async def test_a_reply_becomes_the_output_record() -> None:
    model = FakeModel(replies=[PORTO])
    reply = await Chat(model).ask(PROMPT)
    assert reply.value == Place(city="Porto")
    assert model.seen == [list(PROMPT.messages)]
    assert [call.step for call in reply.calls] == ["gate.majority"]


async def test_a_reply_in_content_blocks_is_read() -> None:
    message = AIMessage([{"type": "text", "text": '{"city": '}, {"type": "text", "text": '"Porto"}'}])
    assert (await Chat(FakeModel(replies=[message])).ask(PROMPT)).value.city == "Porto"


async def test_an_unreadable_reply_gets_one_repair_round() -> None:
    model = FakeModel(replies=[BAD, PORTO])
    reply = await Chat(model).ask(PROMPT)
    assert reply.value.city == "Porto"
    rules, question, said, correction = model.seen[1]
    assert [rules, question] == list(PROMPT.messages)
    assert (said.type, said.text) == ("ai", BAD)
    assert (correction.type, "city: Field required" in correction.text) == ("human", True)
    assert [call.repaired for call in reply.calls] == [False, True]


async def test_after_one_repair_round_it_is_an_error() -> None:
    model = FakeModel(replies=[BAD, "no", PORTO])
    with pytest.raises(UnreadableReply):
        await Chat(model).ask(PROMPT)
    assert len(model.seen) == 2


async def test_an_empty_reply_is_repaired_too() -> None:
    model = FakeModel(replies=["", PORTO])
    assert (await Chat(model).ask(PROMPT)).value.city == "Porto"


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "length"},
        {"stop_reason": "max_tokens"},
        {"finish_reason": "MAX_TOKENS"},
    ],
)
async def test_a_cut_off_reply_is_an_error_even_where_it_can_be_read(metadata: dict[str, str]) -> None:
    model = FakeModel(replies=[AIMessage(PORTO, response_metadata=metadata)])
    with pytest.raises(ReplyTruncated):
        await Chat(model).ask(PROMPT)


class LengthFinishReasonError(Exception):
    """Named as openai's own, which it raises while parsing a reply that was cut off."""


async def test_a_cut_off_that_the_client_raises_is_told_from_other_failures() -> None:
    with pytest.raises(ReplyTruncated):
        await Chat(FakeModel(replies=[LengthFinishReasonError("length limit was reached")])).ask(PROMPT)


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"refusal": "I cannot help with that."}),
        AIMessage(PORTO, response_metadata={"finish_reason": "content_filter"}),
        AIMessage("", response_metadata={"stop_reason": "refusal"}),
    ],
)
async def test_a_refusal_is_no_reply_and_is_not_repaired(message: AIMessage) -> None:
    model = FakeModel(replies=[message])
    with pytest.raises(ModelUnavailable, match="refus"):
        await Chat(model).ask(PROMPT)


@pytest.mark.parametrize("error", [ConnectionError("no route"), ValueError("bad\nkey"), RuntimeError("quota " * 200)])
async def test_whatever_the_provider_raises_is_one_error_with_its_cause(error: Exception) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await Chat(FakeModel(replies=[error])).ask(PROMPT)
    assert caught.value.__cause__ is error
    text = str(caught.value)
    assert text.startswith(f"gate.majority: the model call failed: {type(error).__name__}")
    assert "\n" not in text
    assert len(text) < 400


async def test_a_failure_of_the_repair_round_is_reported_too() -> None:
    with pytest.raises(ModelUnavailable):
        await Chat(FakeModel(replies=[BAD, ConnectionError("gone")])).ask(PROMPT)


async def never() -> str:
    await asyncio.Event().wait()
    return PORTO


async def test_a_call_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(ModelUnavailable, match=r"no reply from the model within 0\.01 s"):
        await Chat(FakeModel(replies=[never]), timeout=0.01).ask(PROMPT)


async def test_a_call_given_up_makes_room_for_the_next() -> None:
    chat = Chat(FakeModel(replies=[never, PORTO]), timeout=0.05, concurrency=1)
    with pytest.raises(ModelUnavailable):
        await chat.ask(PROMPT)
    assert (await chat.ask(PROMPT)).value.city == "Porto"


async def test_a_model_that_starts_first_starts_outside_of_the_time_of_its_call() -> None:
    started: list[str] = []

    async def start() -> None:
        await asyncio.sleep(0.1)
        started.append("once")

    chat = Chat(FakeModel(replies=[PORTO]), timeout=0.05, ready=start)
    assert (await chat.ask(PROMPT)).value.city == "Porto"
    assert started == ["once"]


async def test_what_keeps_a_model_from_starting_reaches_the_caller_as_it_is() -> None:
    async def fail() -> None:
        message = "no such file"
        raise ConfigurationError(message)

    with pytest.raises(ConfigurationError, match="no such file"):
        await Chat(FakeModel(replies=[PORTO]), ready=fail).ask(PROMPT)


async def test_cancelling_is_no_error_of_the_model() -> None:
    task = asyncio.create_task(Chat(FakeModel(replies=[never])).ask(PROMPT))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Crowd:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.inside = self.most = 0

    async def __call__(self) -> str:
        self.inside += 1
        self.most = max(self.most, self.inside)
        for _ in range(5):
            await asyncio.sleep(0)
        self.inside -= 1
        return PORTO


async def test_no_more_calls_run_at_once_than_are_allowed() -> None:
    crowd = Crowd()
    chat = Chat(FakeModel(replies=[crowd] * 20), concurrency=3)
    await asyncio.gather(*(chat.ask(PROMPT) for _ in range(20)))
    assert crowd.most == 3


def test_one_chat_serves_several_event_loops() -> None:
    crowd = Crowd()
    chat = Chat(FakeModel(replies=[crowd] * 8), concurrency=1)

    async def burst() -> None:
        await asyncio.gather(*(chat.ask(PROMPT) for _ in range(4)))

    asyncio.run(burst())
    asyncio.run(burst())
    assert crowd.most == 1


async def test_usage_is_counted_with_what_the_cache_served() -> None:
    def used(cached: int | None) -> AIMessage:
        details = {} if cached is None else {"input_token_details": {"cache_read": cached}}
        usage: Any = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, **details}
        return AIMessage(BAD if cached else PORTO, usage_metadata=usage)

    first, second = (await Chat(FakeModel(replies=[used(80), used(None)])).ask(PROMPT)).calls
    assert (first.tokens_in, first.tokens_out, first.tokens_cached) == (100, 7, 80)
    assert (second.tokens_in, second.tokens_out, second.tokens_cached) == (100, 7, 0)


async def test_a_model_that_reports_no_usage_is_counted_as_a_call() -> None:
    (call,) = (await Chat(FakeModel(replies=[PORTO])).ask(PROMPT)).calls
    assert (call.tokens_in, call.tokens_out) == (0, 0)


# How the form of the reply is asked for


async def test_a_plain_model_is_sent_nothing_it_may_not_know() -> None:
    model = FakeModel(replies=[PORTO, PORTO])
    await Chat(model, max_output_tokens=100).ask(PROMPT)
    await Chat(model).ask(PROMPT, temperature=0.7)
    assert model.options == [{}, {"temperature": 0.7}]


class OpenAILike(FakeModel):
    """Looks like langchain-openai's class to whoever asks for its module."""

    openai_api_base: str | None = None


OpenAILike.__module__ = "langchain_openai.chat_models.base"


async def test_openai_is_asked_by_response_format_in_strict_mode() -> None:
    model = OpenAILike(replies=[PORTO])
    await Chat(model, max_output_tokens=256).ask(PROMPT, temperature=0.7)
    (options,) = model.options
    wanted = options["response_format"]
    assert (options["temperature"], options["max_tokens"]) == (0.7, 256)
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["name"] == "gate_majority"
    assert wanted["json_schema"]["strict"] is True
    assert wanted["json_schema"]["schema"] == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }


async def test_a_server_of_ones_own_gets_the_bounds_that_small_models_need() -> None:
    model = OpenAILike(replies=[PORTO], openai_api_base="http://127.0.0.1:8000/v1")
    await Chat(model).ask(PROMPT)
    assert model.options[0]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "max_tokens" not in model.options[0]


async def test_the_real_openai_class_is_recognised() -> None:
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    model = ChatOpenAI(model="gpt-4o-mini", api_key=SecretStr("none"))
    bound: Any = Chat(model)._runnable(PROMPT, None)
    assert bound.kwargs["response_format"]["json_schema"]["schema"]["additionalProperties"] is False


class ToolCalling(FakeModel):
    """A model whose class brings tool calling, as most providers' do."""

    bound: list[dict[str, Any]] = Field(default_factory=list)

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **kwargs: Any) -> Runnable[Any, AIMessage]:
        self.bound.extend(tools)
        return self.bind(**kwargs)


def called(args: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "gate_majority", "args": args, "id": "call-1"}])


async def test_a_model_with_tool_calling_is_given_the_schema_as_a_tool() -> None:
    model = ToolCalling(replies=[called({"city": "Porto – 北京"})])
    reply = await Chat(model).ask(PROMPT)
    assert reply.value.city == "Porto – 北京"
    assert "city" in json.dumps(model.bound)


async def test_a_tool_call_that_does_not_fit_is_repaired() -> None:
    model = ToolCalling(replies=[called({"town": "Porto"}), called({"city": "Porto"})])
    reply = await Chat(model).ask(PROMPT)
    assert (reply.value.city, len(reply.calls)) == ("Porto", 2)


async def test_a_model_with_tool_calling_can_be_asked_at_another_temperature() -> None:
    model = ToolCalling(replies=[called({"city": "Porto"})])
    assert (await Chat(model).ask(PROMPT, temperature=0.7)).value.city == "Porto"
    assert model.options == [{"temperature": 0.7}]


class Structured(FakeModel):
    """A model whose class brings structured output of its own."""

    asked: list[dict[str, Any]] = Field(default_factory=list)
    temperature: float = 0.0

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[Any, dict[str, Any] | BaseModel]:
        if kwargs:
            message = f"Received unsupported arguments {kwargs}"
            raise ValueError(message)
        self.asked.append({"schema": schema, "include_raw": include_raw, "temperature": self.temperature})

        async def wrapped(messages: Any) -> dict[str, Any]:
            return {"raw": await self.ainvoke(messages), "parsed": None, "parsing_error": None}

        return RunnableLambda(wrapped)


async def test_a_model_with_structured_output_of_its_own_is_asked_by_it() -> None:
    model = Structured(replies=[PORTO])
    assert (await Chat(model).ask(PROMPT)).value.city == "Porto"
    (asked,) = model.asked
    assert asked["include_raw"] is True
    assert asked["schema"] == {"title": "gate_majority", **SCHEMA}


async def test_a_model_with_structured_output_of_its_own_can_be_asked_at_another_temperature() -> None:
    model = Structured(replies=[PORTO, PORTO])
    chat = Chat(model)
    await chat.ask(PROMPT, temperature=0.7)
    await chat.ask(PROMPT)
    assert [asked["temperature"] for asked in model.asked] == [0.7, 0.0]


class Unable(FakeModel):
    """A model whose class cannot give structured output, and says so only when asked."""

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **kwargs: Any) -> Runnable[Any, Any]:
        raise NotImplementedError("no structured output for this model")


async def test_a_model_that_cannot_be_asked_by_schema_is_one_error() -> None:
    with pytest.raises(ModelUnavailable):
        await Chat(Unable(replies=[PORTO])).ask(PROMPT)


class Wordy(FakeModel):
    """A model whose structured output is a text."""

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **kwargs: Any) -> Runnable[Any, Any]:
        return RunnableLambda(lambda _: "Porto")


async def test_a_model_that_returns_no_message_is_an_error_that_names_what_it_was() -> None:
    with pytest.raises(ModelUnavailable, match="returned str instead of an AIMessage"):
        await Chat(Wordy(replies=[])).ask(PROMPT)


async def test_a_chat_without_a_model_says_so() -> None:
    with pytest.raises(ConfigurationError, match="without a model"):
        await Chat().ask(PROMPT)


def test_strict_schemas_keep_what_strict_mode_knows() -> None:
    item = {
        "type": "object",
        "properties": {"n": {"type": "integer", "enum": [1, 2]}, "s": {"type": "string", "maxLength": 3}},
        "required": ["n"],
    }
    schema = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": item, "maxItems": 3},
            "ready": {"type": "boolean", "default": False},
        },
    }
    strict = strict_schema(schema)
    inner = strict["properties"]["items"]["items"]
    assert strict["required"] == ["items", "ready"]
    assert strict["additionalProperties"] is False
    assert (inner["required"], inner["additionalProperties"]) == (["n", "s"], False)
    assert inner["properties"] == {"n": {"type": "integer", "enum": [1, 2]}, "s": {"type": "string"}}
    assert strict["properties"]["items"]["maxItems"] == 3
    assert strict["properties"]["ready"] == {"type": "boolean"}
    assert "maxLength" in item["properties"]["s"], "the schema given is not changed"  # type: ignore[index] # JSON


def test_every_prompt_has_a_schema_that_strict_mode_takes(a_turn: Callable[..., Any]) -> None:
    from dualmem.prompts import extraction

    prompt = extraction.render([], [a_turn()], most=3)

    def check(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            assert not {"maxLength", "minLength"} & node.keys()
            for value in node.values():
                check(value)

    check(strict_schema(prompt.schema))
