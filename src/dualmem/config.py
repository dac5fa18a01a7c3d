"""Settings: one model, every number of both papers a field, named presets over it.

`Options` is what may change from run to run, and the context schema of every graph, so LangGraph Studio
shows it as a form. `Settings` adds what belongs to a deployment (where the store is, which server models are
called at) and is read from the environment (`DUALMEM_*`) and `.env`.

Precedence: what the caller passes, then the environment, then `.env`, then the preset, then the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from dualmem.errors import ConfigurationError
from dualmem.presets import LOCAL, PRESETS, PresetName

GatePolicy = Literal["quality", "majority", "consensus", "always", "never"]

SuspiciousMode = Literal["keep", "flag", "quarantine"]

Ranking = Literal["semantic", "keyword", "template", "topic", "time", "turns"]

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "semantic": 1.5,
        "keyword": 1.25,
        "template": 0.25,
        "topic": 0.25,
        "time": 0.5,
        "turns.semantic": 1.0,
        "turns.lexical": 2.0,
    }
)
"""Weights of the rankings where scores are fused; by ranks alone, all weigh the same."""


class Options(BaseModel):
    """What may change from run to run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: PresetName = Field("default", description="A named set of values beneath everything set by hand.")

    # Models
    chat_model: str | None = Field(
        None,
        description="`openai:NAME`, `local` for the embedded model, `local:PATH` for another GGUF file, "
        "`local:hub:OWNER/REPO/FILE` for one of a model hub, or any `provider:NAME` that LangChain's init_chat_model "
        "knows.",
    )
    temperature: float = Field(0.0, ge=0, le=2, description="For every call but the gate's candidates.")
    candidate_temperature: float = Field(0.7, ge=0, le=2, description="For the candidates of majority and consensus.")
    candidates: int = Field(3, ge=2, le=9, description="Answers sampled by majority and consensus.")
    max_output_tokens: int = Field(2048, ge=64, description="Output limit of one call, in tokens.")
    call_timeout: float = Field(120.0, gt=0, description="Limit of one model call, in seconds.")
    max_concurrency: int = Field(8, ge=1, le=256, description="Model calls at once, in one process.")

    # Ingestion
    strategy: Literal["lifecycle", "mem0star", "verbatim"] = Field(
        "lifecycle",
        description="`lifecycle` (MemoryLACE), `mem0star` (D-Mem's System 1), or `verbatim` (a turn is a memory; "
        "no model call).",
    )
    extraction: Literal["full", "lean"] = Field(
        "full", description="`lean` asks for fewer fields, which is what a small model can do well."
    )
    window_turns: int = Field(40, ge=1, le=500, description="New turns in one extraction window.")
    window_tokens: int = Field(3000, ge=64, description="Tokens of new turns in one extraction window.")
    window_overlap: int = Field(4, ge=0, le=50, description="Earlier turns shown before a window as context.")
    window_memories: int = Field(40, ge=1, le=200, description="Most memories taken from one window.")
    batch_windows: int = Field(8, ge=1, le=64, description="Windows extracted in parallel and committed together.")
    similar_memories: int = Field(5, ge=1, le=50, description="Similar memories offered for each draft (D-Mem: 5).")
    similarity: float = Field(
        0.8, ge=-1, le=1, description="Least cosine of a similar memory in mem0star (D-Mem: 0.8)."
    )
    candidate_similarity: float = Field(
        0.35, ge=-1, le=1, description="Least cosine of a similar memory offered for a lifecycle decision."
    )
    compete_similarity: float = Field(
        0.5,
        ge=-1,
        le=1,
        description="Least cosine at which memories without a common attribute may contradict each other, where "
        "`lean` extraction is in force.",
    )
    decision_drafts: int = Field(40, ge=1, le=200, description="Most drafts decided in one call.")
    merge: Literal["linked", "compact"] = Field(
        "linked", description="`linked` keeps both memories, `compact` writes one that replaces them."
    )
    evolution: bool = Field(True, description="Review each batch once more for links that show only in the group.")
    retirements: int = Field(20, ge=0, description="Most memories one batch may supersede; the rest are refused.")
    extraction_context_memories: int = Field(10, ge=0, description="Similar memories shown at extraction (D-Mem: 10).")
    extraction_history: int = Field(8, ge=0, description="Earlier messages shown at extraction (D-Mem: 8).")

    # Recall
    top_k: int = Field(30, ge=1, le=500, description="Memories taken per speaker (D-Mem: 30).")
    rankings: tuple[Ranking, ...] = Field(
        ("semantic", "keyword", "template", "topic", "time", "turns"),
        description="The rankings that are fused.",
    )
    rrf_k: int = Field(10, ge=0, le=1000, description="Constant of reciprocal rank fusion.")
    fusion: Literal["scores", "rrf"] = Field(
        "scores",
        description="How rankings are fused: by their scores, or by ranks alone (reciprocal rank fusion, MemoryLACE).",
    )
    ranking_weights: dict[str, float] = Field(
        default_factory=dict,
        description="Weight of a ranking in the fusion, by its name, over the fusion's own. `turns` weighs what a "
        "memory's source turns give it, `turns.semantic` and `turns.lexical` the two rankings of turns.",
    )
    expand_lifecycle: bool = Field(
        True, description="Show earlier states and conflicting memories with what was found."
    )
    temporal: bool = Field(True, description="Use and show dates.")
    rerank: Literal["lexical", "compressor", "model", "none"] = Field(
        "lexical",
        description="How evidence units are reordered: by words and dates, by `rerank_model` or a LangChain document "
        "compressor, or by one more call of the chat model.",
    )
    rerank_model: str | None = Field(
        None, description="A cross-encoder of fastembed, such as `Xenova/ms-marco-MiniLM-L-6-v2` (extra `rerank`)."
    )
    zoom_turns: int = Field(6, ge=0, le=100, description="Strongest units shown with their source turns; 0 is off.")
    context_tokens: int = Field(3000, ge=64, description="Budget of the evidence in the answer prompt, in tokens.")
    memory_filter: Literal["model", "score", "off"] = Field(
        "off", description="Let a model call keep only what helps, or keep what scores at least `filter_score`."
    )
    filter_score: float = Field(
        0.5, description="Least score of a unit; a cross-encoder's own, or beside a best of about 1 without one."
    )
    stream_tokens: bool = Field(
        False,
        description="Give the words of an answer as custom events while they are written; the gate may still replace "
        "a fast one.",
    )
    answer_style: Literal["conversational", "short"] = Field("conversational", description="How answers are worded.")

    # Gate
    gate: GatePolicy = Field("quality", description="When to read the raw history (D-Mem, gate policies).")

    # Deliberation
    deliberation: Literal["progressive", "exhaustive"] = Field(
        "progressive", description="`exhaustive` reads every chunk; `progressive` stops when the gate passes."
    )
    chunk_turns: int = Field(60, ge=1, le=1000, description="Turns in a chunk (D-Mem: 60).")
    chunk_tokens: int = Field(8000, ge=64, description="Tokens in a chunk; a longer one is cut.")
    chunk_overlap: int = Field(4, ge=0, le=50, description="Turns before a chunk, as context only (D-Mem: 4).")
    wave_chunks: int = Field(4, ge=1, le=256, description="Chunks read in one wave of progressive deliberation.")
    extraction_score: float = Field(5.0, ge=0, le=10, description="Least relevance a chunk reports (D-Mem: 5).")
    score_threshold: float = Field(6.0, ge=0, le=10, description="Facts must score above this (D-Mem: 6).")
    fact_filter_above: int = Field(6, ge=0, description="Let a model select when more facts remain (D-Mem: 6).")
    max_facts: int = Field(60, ge=1, description="Most facts handed to the answer.")
    ledger: bool = Field(
        True, description="Read typed records where a question counts or adds up, and compute from them in code."
    )
    check_support: bool = Field(
        True,
        description="Grade a deliberated answer once more, against its source turns, where those do not carry the "
        "words of the question or of the answer.",
    )
    budget_tokens: int | None = Field(
        None, ge=1, description="Tokens in and out that a question may cost; deliberation stops before it costs more."
    )
    budget_calls: int | None = Field(None, ge=1, description="Model calls that a question may cost.")
    budget_seconds: float | None = Field(
        None, gt=0, description="Seconds after which deliberation reads no more and answers from what it has."
    )
    budget_cost: float | None = Field(
        None, gt=0, description="Money that a question may cost, in the currency of the prices below."
    )
    price_input: float | None = Field(None, ge=0, description="Price of a million tokens in.")
    price_output: float | None = Field(None, ge=0, description="Price of a million tokens out.")
    price_cached: float | None = Field(
        None, ge=0, description="Price of a million tokens in that the provider had cached; by default as others."
    )
    write_back: bool = Field(True, description="Remember what deliberation found and memory lacked.")

    # Tracing
    trace_feedback: bool = Field(False, description="Post the gate's grades to LangSmith as feedback on the trace.")

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each ranking in the fusion; 1 where none is named."""
        return {**(WEIGHTS if self.fusion == "scores" else {}), **self.ranking_weights}


class Settings(BaseSettings, Options):
    """What is in force: options, and what belongs to the deployment."""

    model_config = SettingsConfigDict(
        env_prefix="DUALMEM_",
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
    )

    base_url: str | None = Field(
        None, description="Base URL of a server that speaks the OpenAI protocol (vLLM, Ollama, llama.cpp)."
    )
    embedding_model: str | None = Field(
        None,
        description="`openai:NAME`, `local` (all-MiniLM-L6-v2), `local:multilingual` (multilingual-e5-small), or any "
        "`provider:NAME` that LangChain's init_embeddings knows.",
    )
    store: str = Field(
        str(Path("~/.dualmem/store")),
        description="A folder (Qdrant Edge), the URL of a Qdrant server, or `:memory:`.",
    )
    qdrant_api_key: SecretStr | None = Field(None, description="Key of the Qdrant server.")
    collection_prefix: str = Field("dualmem", pattern=r"^[A-Za-z0-9_-]+$", description="Prefix of the collections.")
    encryption_key: SecretStr | None = Field(
        None,
        description="Encrypts the texts in the store (extra `encrypt`): 32 bytes in base64 or hexadecimal, made by "
        "`dualmem new-key`.",
    )
    encryption_key_file: str | None = Field(None, description="A file that holds the key, in place of the key itself.")
    suspicious: SuspiciousMode = Field(
        "flag",
        description="What becomes of a memory that reads like an instruction to a model: `keep` it like any other, "
        "`flag` it, or `quarantine` it: stored, and out of force until it is released.",
    )
    redact: Literal["presidio"] | None = Field(
        None,
        description="What takes personal data out of a text before it is stored or shown to a model: `presidio` (extra "
        "`redact`), or a function that is given in code.",
    )
    cache_dir: str = Field(str(Path("~/.cache/dualmem")), description="Where joined model files are kept.")
    lease_seconds: float = Field(60.0, gt=0, description="A writer that shows no life for so long loses its user.")

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)
    """What the caller set by hand."""

    _outside: dict[str, Any] = PrivateAttr(default_factory=dict)
    """What the environment and `.env` said when these settings, or those they derive from, were read."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._given = values
        self._outside = _read.get()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the hook's own signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the preset beneath everything that was set by hand."""
        outside = _over(dotenv_settings(), env_settings())
        _read.set(outside)
        return init_settings, InitSettingsSource(settings_cls, outside), PresetSource(settings_cls)

    def override(self, options: Options | Mapping[str, Any]) -> Settings:
        """Return these settings with `options` on top; only what was set in them counts.

        The environment and `.env` are not read again: that takes longer than a search.

        Raises:
            ConfigurationError: An option does not exist or has a value that it cannot have.
        """
        changes = options.model_dump(exclude_unset=True) if isinstance(options, BaseModel) else dict(options)
        given = {**self._given, **changes}
        return _checked(given, self._derived)

    def _derived(self, **given: Any) -> Settings:
        """Return what `Settings(**given)` would have been when these were read."""
        above = _over(self._outside, given)
        made = Settings.__new__(Settings)
        # Not through the constructor of settings, which reads.
        BaseModel.__init__(made, **_over(_beneath(above), above))
        made._given, made._outside = given, self._outside  # noqa: SLF001 - of its own class
        return made


_read: ContextVar[dict[str, Any]] = ContextVar("read", default={})  # noqa: B039 - never changed in place
"""What the settings that are being made found outside: their sources know no instance to leave it with."""


class PresetSource(PydanticBaseSettingsSource):
    """The values of the preset that the sources above it chose."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - the library's form
        """Return the preset's value of one field."""
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the chosen preset's values; an unknown name is left to validation."""
        return _beneath(self.current_state)


def _beneath(above: Mapping[str, Any]) -> dict[str, Any]:
    """Return what lies beneath the values that were set: the preset's, and those of the embedded model."""
    preset = PRESETS.get(above.get("preset", "default"), {})
    local = LOCAL if is_local(above.get("chat_model")) else {}
    return {**local, **preset}


def _over(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Lay values over others, and mappings within them likewise, as pydantic-settings does with its sources."""
    both = {key: _over(low[key], value) for key, value in high.items() if _is_mapping(low.get(key), value)}
    return {**low, **high, **both}


def _is_mapping(*values: object) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def is_local(chat_model: object) -> bool:
    """Whether a chat model's name means the embedded model."""
    return isinstance(chat_model, str) and chat_model.partition(":")[0] == "local"


def load_settings(**values: Any) -> Settings:
    """Read the settings in force, with `values` over everything else.

    Raises:
        ConfigurationError: A value is not one that its setting can have, or no setting has that name.
    """
    return _checked(values, Settings)


def _checked(values: Mapping[str, Any], make: Callable[..., Settings]) -> Settings:
    unknown = sorted(set(values) - set(Settings.model_fields))
    if unknown:
        message = f"no setting is named {', '.join(map(repr, unknown))}; `dualmem config` lists them all"
        raise ConfigurationError(message)
    try:
        return make(**values)
    except ValueError as error:
        raise ConfigurationError(describe_validation(error)) from error


def describe_validation(error: ValueError) -> str:
    """Say in one line which values were refused and why."""
    details = getattr(error, "errors", None)
    if details is None:
        return str(error)
    return "; ".join(_refused(item) for item in details())


def _refused(item: Mapping[str, Any]) -> str:
    """Say why one value was refused; a secret is not shown."""
    field = Settings.model_fields.get(str(item["loc"][0])) if item["loc"] else None
    secret = field is not None and field.annotation == SecretStr | None
    shown = "" if secret else f" (got {item.get('input')!r})"
    return f"{'.'.join(map(str, item['loc'])) or 'value'}: {item['msg']}{shown}"


def origin_of(settings: Settings, name: str) -> str:
    """Say where a setting's value comes from: `environment`, `.env`, `preset NAME`, `local model` or `default`."""
    import os  # noqa: PLC0415 - only for this report

    variable = f"DUALMEM_{name.upper()}"
    if os.environ.get(variable):
        return f"environment ({variable})"
    if name not in settings.model_fields_set:
        return "default"
    if _dotenv_has(variable):
        return ".env"
    if name in PRESETS[settings.preset]:
        return f"preset {settings.preset}"
    if name in LOCAL and is_local(settings.chat_model):
        return "local model"
    return "command line"


def _dotenv_has(variable: str) -> bool:
    from dotenv import dotenv_values  # noqa: PLC0415 - comes with pydantic-settings

    return variable.lower() in {key.lower() for key in dotenv_values(".env")}
