"""What LangSmith gets to see, recorded from the real client by an endpoint on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
from collections.abc import Callable, Iterator
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any

import pytest
import zstandard
from langgraph.graph import END, START, StateGraph
from langsmith import Client
from langsmith.anonymizer import create_anonymizer
from langsmith.run_helpers import tracing_context
from typing_extensions import TypedDict

from dualmem import DualMem
from dualmem.errors import ModelUnavailable
from dualmem.testing import WordEmbeddings

pytestmark = pytest.mark.server

INFO = {
    "version": "0.10.0",
    "batch_ingest_config": {
        "use_multipart_endpoint": True,
        "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 4,
        "scale_down_nempty_trigger": 4,
        "size_limit": 100,
        "size_limit_bytes": 20971520,
    },
    "instance_flags": {"zstd_compression_enabled": True},
}


PROJECTS = [
    {
        "id": "2b9e9a4c-6a0f-4b52-a6a4-0c8b7c0f3f10",
        "tenant_id": "7c2f3f10-6a0f-4b52-a6a4-0c8b2b9e9a4c",
        "name": "tests",
        "start_time": "2024-03-01T10:00:00",
        "reference_dataset_id": None,
    }
]


class Recorder:
    """The runs and the feedback that arrived, each put together from its parts."""

    def __init__(self) -> None:
        self.raw = b""
        self.graded = threading.Event()
        """Set when three grades have arrived."""
        self.runs: dict[str, dict[str, Any]] = {}
        self.feedback: list[dict[str, Any]] = []
        self.url = ""
        self._lock = threading.Lock()

    def take(self, kind: str, body: bytes) -> None:
        """Take in a multipart body."""
        message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
        with self._lock:
            self.raw += body
            for part in message.iter_parts():
                name = str(part.get_param("name", header="content-disposition"))
                event, identifier, *field = name.split(".")
                if event not in {"post", "patch", "feedback"}:
                    continue
                value = json.loads(part.get_content())
                if event == "feedback":
                    self.grade(value)
                    continue
                run = self.runs.setdefault(identifier, {})
                run.update({field[0]: value} if field else {k: v for k, v in value.items() if v is not None})

    def grade(self, value: dict[str, Any]) -> None:
        """Take in one piece of feedback."""
        self.feedback.append(value)
        if len(self.feedback) == 3:
            self.graded.set()

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the runs of that name."""
        return [run for run in self.runs.values() if run.get("name") == name]


class Handler(BaseHTTPRequestHandler):
    """Answers as LangSmith does, and hands on what is posted."""

    recorder: Recorder

    def do_GET(self) -> None:
        self._reply(PROJECTS if "/sessions" in self.path else INFO)

    def do_POST(self) -> None:
        body = self._body()
        encoding = self.headers.get("content-encoding")
        if encoding == "zstd":
            body = zstandard.ZstdDecompressor().stream_reader(BytesIO(body)).read()
        elif encoding == "gzip":
            body = gzip.decompress(body)
        kind = self.headers["content-type"]
        if kind.startswith("multipart/"):
            self.recorder.take(kind, body)
        elif "feedback" in self.path:
            self.recorder.grade(json.loads(body))
        self._reply({})

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _reply(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Recorder]:
    """An endpoint that runs for the time of a test."""
    recorder = Recorder()
    handler = type("RecordingHandler", (Handler,), {"recorder": recorder})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        recorder.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield recorder
        server.shutdown()
        thread.join()


@pytest.fixture
def traced(
    endpoint: Recorder, reader: Callable[..., Any], grades: Callable[..., Any], chat_of: Callable[..., Any]
) -> Callable[..., Any]:
    """Remember something and ask about it, with tracing, and return the memory's settings when all was posted."""

    async def run(
        *,
        question: str = "Where does Ana live?",
        client: dict[str, Any] | None = None,
        options: Any = None,
        **script: Any,
    ) -> Any:
        # Functions, since a trace shows a model's fields, and with them its script.
        def facts(_: str) -> dict[str, Any]:
            return {"facts": [{"fact": "Ana lives in Porto.", "score": 9, "turns": [1]}]}

        def answer(_: str) -> dict[str, Any]:
            return {"cites": ["M1"], "found": True, "answer": "Ana lives in Porto."}

        model = reader(**{"answer": answer, "gate": grades(reason="it says so"), "deliberate.extract": facts, **script})
        tracer = Client(api_url=endpoint.url, api_key="test", **(client or {}))
        async with DualMem(
            chat_model=model, embeddings=WordEmbeddings(), store=":memory:", **(options or {})
        ) as memory:
            with tracing_context(enabled=True, client=tracer, project_name="tests"):
                await memory.remember(chat_of("Ana: Ana lives in Porto.", "Ana: Ana likes figs."), user_id="ana")
                found = await memory.recall(question, user_id="ana")
        tracer.flush()
        return found

    return run


def metadata(run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = run["extra"]["metadata"]
    return found


def labels(run: dict[str, Any]) -> set[str]:
    return {tag for tag in run["tags"] if tag.startswith(("route:", "verdict:", "failed:"))}


async def test_a_fast_recall_says_so(endpoint: Recorder, traced: Callable[..., Any]) -> None:
    found = await traced()
    (recall,) = endpoint.named("recall")
    (gate,) = endpoint.named("gate")
    assert "parent_run_id" not in recall
    for run in (recall, gate):
        assert labels(run) == {"route:fast", "verdict:pass"}
        seen = metadata(run)
        assert (seen["route"], seen["outcome"], seen["verdict"], seen["gate_policy"]) == (
            "fast",
            "answered",
            "pass",
            "quality",
        )
        assert (seen["relevant"], seen["faithful"], seen["complete"]) == (True, True, True)
        assert (seen["reason"], seen["coverage"]) == ("it says so", "")
        assert seen["evidence_ids"] == [item.memory_id for item in found.evidence]
        assert seen["tokens_by_step"] == found.usage.by_step


async def test_a_deliberated_recall_says_so_and_has_a_run_for_each_chunk(
    endpoint: Recorder, traced: Callable[..., Any], grades: Callable[..., Any]
) -> None:
    found = await traced(
        gate=grades(complete=False, reason="the year is missing", missing="the year"), options={"chunk_turns": 1}
    )
    (recall,) = endpoint.named("recall")
    assert labels(recall) == {"route:deliberate", "verdict:fail", "failed:complete"}
    seen = metadata(recall)
    assert (seen["route"], seen["verdict"], seen["complete"]) == ("deliberate", "fail", False)
    assert (seen["reason"], seen["missing"]) == ("the year is missing", "the year")
    assert seen["coverage"] == "read 2 of 2 turns"
    assert seen["evidence_ids"] == list(
        dict.fromkeys(item.memory_id or item.source_turn_ids[0] for item in found.evidence)
    )
    assert seen["tokens_by_step"].keys() >= {"answer", "gate", "deliberate.extract", "deliberate.answer"}
    deliberations = {run["id"] for run in endpoint.named("deliberation")}
    chunks = [run for run in endpoint.named("extract") if run["parent_run_id"] in deliberations]
    assert len(chunks) == 2
    for chunk in chunks:
        calls = [run for run in endpoint.runs.values() if run.get("parent_run_id") == chunk["id"]]
        assert [run["run_type"] for run in calls] == ["llm"]
        assert "step:deliberate.extract" in calls[0]["tags"]


async def test_a_degraded_recall_says_why(endpoint: Recorder, traced: Callable[..., Any]) -> None:
    await traced(gate=ModelUnavailable("the model is away"))
    (recall,) = endpoint.named("recall")
    assert labels(recall) == {"route:degraded", "verdict:fail"}
    assert "the model is away" in metadata(recall)["degraded_reason"]


async def test_the_steps_have_their_names(endpoint: Recorder, traced: Callable[..., Any]) -> None:
    await traced()
    (ingestion,) = endpoint.named("ingestion")
    (recall,) = endpoint.named("recall")
    steps = {
        parent["id"]: [
            run["name"]
            for run in sorted(endpoint.runs.values(), key=lambda run: run["dotted_order"])
            if run.get("parent_run_id") == parent["id"]
        ]
        for parent in (ingestion, recall)
    }
    assert steps[recall["id"]] == ["retrieve", "filter", "answer", "gate"]
    assert steps[ingestion["id"]] == [
        "record",
        "extract",
        "index",
        "dedupe",
        "integrate",
        "receipt",
    ]


class Host(TypedDict, total=False):
    """The state of a larger graph."""

    user_id: str
    question: str
    answer: str


async def test_inside_a_larger_graph_the_recall_run_is_marked_and_the_graph_is_not(
    endpoint: Recorder, reader: Callable[..., Any]
) -> None:
    tracer = Client(api_url=endpoint.url, api_key="test")
    async with DualMem(chat_model=reader(), embeddings=WordEmbeddings(), store=":memory:") as memory:
        graph = (
            StateGraph(Host)
            .add_node("look_up", memory.recall_graph)
            .add_edge(START, "look_up")
            .add_edge("look_up", END)
            .compile(name="host")
        )
        with tracing_context(enabled=True, client=tracer, project_name="tests"):
            await graph.ainvoke({"user_id": "ana", "question": "Where?"})
    tracer.flush()
    (recall,) = endpoint.named("recall")
    (host,) = endpoint.named("host")
    assert labels(recall) == {"route:fast", "verdict:pass"}
    assert metadata(recall)["outcome"] == "nothing_stored"
    assert labels(host) == set()


async def test_grades_go_out_as_feedback_when_asked_for(
    endpoint: Recorder, traced: Callable[..., Any], grades: Callable[..., Any]
) -> None:
    await traced(gate=grades(complete=False, reason="the year is missing"), options={"trace_feedback": True})
    (recall,) = endpoint.named("recall")
    assert await asyncio.to_thread(endpoint.graded.wait, 60)
    assert {item["key"]: item["score"] for item in endpoint.feedback} == {
        "gate_relevant": 1.0,
        "gate_faithful": 1.0,
        "gate_complete": 0.0,
    }
    assert {item["run_id"] for item in endpoint.feedback} == {recall["id"]}
    assert {item["comment"] for item in endpoint.feedback} == {"the year is missing"}


async def test_grades_stay_here_when_not(endpoint: Recorder, traced: Callable[..., Any]) -> None:
    await traced()
    assert endpoint.feedback == []


async def test_nothing_that_was_said_is_sent_when_it_is_hidden(endpoint: Recorder, traced: Callable[..., Any]) -> None:
    await traced(client={"hide_inputs": True, "hide_outputs": True})
    assert endpoint.named("recall")
    assert b"Porto" not in endpoint.raw
    assert b"figs" not in endpoint.raw


async def test_an_anonymizer_works_on_it_before_it_is_sent(endpoint: Recorder, traced: Callable[..., Any]) -> None:
    anonymizer = create_anonymizer([{"pattern": re.compile("Porto"), "replace": "[city]"}])
    await traced(question="Does Ana live in Porto?", client={"anonymizer": anonymizer})
    assert b"[city]" in endpoint.raw
    assert b"Porto" not in endpoint.raw


async def test_metadata_is_not_sent_when_it_is_hidden(
    endpoint: Recorder, traced: Callable[..., Any], grades: Callable[..., Any]
) -> None:
    hidden = {"hide_inputs": True, "hide_outputs": True, "hide_metadata": True}

    def gate(_: str) -> Any:
        return grades(complete=False, reason="Lisbon is missing", missing="Lisbon")

    await traced(gate=gate, client=hidden)
    (recall,) = endpoint.named("recall")
    assert b"Lisbon" not in endpoint.raw
    assert labels(recall) == {"route:deliberate", "verdict:fail", "failed:complete"}


async def test_the_same_goes_out_by_opentelemetry(endpoint: Recorder, traced: Callable[..., Any]) -> None:
    """By LangSmith's own exporter, and to nowhere else."""
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    kept = memory.InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    await traced(client={"otel_tracer_provider": provider, "tracing_mode": "otel"})
    spans = {span.name: span for span in kept.get_finished_spans()}
    assert {"recall", "retrieve", "answer", "gate", "ingestion"} <= spans.keys()
    attributes = spans["recall"].attributes
    assert attributes["langsmith.metadata.route"] == "fast"
    assert attributes["langsmith.metadata.reason"] == "it says so"
    assert "route:fast" in attributes["langsmith.span.tags"]
    assert endpoint.runs == {}
