"""Take personal data out of texts before they are stored or shown to a model.

Anybody's function can do it (`DualMem(redact=function)`), or Microsoft Presidio by name (`redact="presidio"`, extra
`redact`). What a function takes out is in no store, index, prompt or export.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from dualmem.cleaning import clean_text
from dualmem.errors import ConfigurationError

if TYPE_CHECKING:
    from dualmem.config import Settings

_LEAST_SCORE = 0.3
"""Presidio's score from which something counts: a telephone number without other signs has 0.4, a bare `::` 0.1."""


class Redact(Protocol):
    """A function that takes personal data out of a text.

    It is called in a worker thread, from several at once, and may block. The same text must give the same result, and
    its own result must come back as it is.
    """

    def __call__(self, text: str, /) -> str:
        """Return the text without what is not to be kept."""


class PresidioRedact:
    """Presidio's recognisers by pattern and checksum: e-mail addresses, telephone numbers, payment cards, IBANs, IPs.

    What is found becomes its kind, `[EMAIL_ADDRESS]`. No model of language is loaded and nothing is fetched, so that
    names and addresses stay; whoever wants those out hands over a function around an analyzer of their own.
    """

    def __call__(self, text: str, /) -> str:
        """Return the text without what is recognised.

        Raises:
            ConfigurationError: The extra `redact` is not installed.
        """
        analyzer, anonymizer, operators = self._engines
        found = analyzer.analyze(text, language="en")
        return str(anonymizer.anonymize(text, found, operators).text) if found else text

    @cached_property
    def _engines(self) -> tuple[Any, Any, Any]:
        try:
            from presidio_analyzer import AnalyzerEngine, RecognizerRegistry  # noqa: PLC0415 - slow, and an extra
            from presidio_analyzer.nlp_engine import NoOpNlpEngine  # noqa: PLC0415 - slow, and an extra
            from presidio_analyzer.predefined_recognizers import (  # noqa: PLC0415 - slow, and an extra
                CreditCardRecognizer,
                EmailRecognizer,
                IbanRecognizer,
                IpRecognizer,
                PhoneRecognizer,
            )
            from presidio_anonymizer import AnonymizerEngine  # noqa: PLC0415 - slow, and an extra
            from presidio_anonymizer.entities import OperatorConfig  # noqa: PLC0415 - slow, and an extra
            from tldextract import TLDExtract  # noqa: PLC0415 - comes with Presidio
        except ImportError as error:
            message = 'redaction by Presidio needs packages that are not installed: pip install "dualmem[redact]"'
            raise ConfigurationError(message) from error

        # Presidio's own would fetch the list of top-level domains; this one has the list that it is shipped with.
        domains = TLDExtract(suffix_list_urls=(), cache_dir=None)

        def is_address(_: object, pattern_text: str) -> bool:
            return bool(domains(pattern_text).fqdn)

        offline_email = type("OfflineEmailRecognizer", (EmailRecognizer,), {"validate_result": is_address})
        recognizers = [
            offline_email(),
            PhoneRecognizer(),
            CreditCardRecognizer(),
            IbanRecognizer(),
            IpRecognizer(),
        ]
        analyzer = AnalyzerEngine(
            registry=RecognizerRegistry(recognizers=recognizers, supported_languages=["en"]),
            nlp_engine=NoOpNlpEngine(models=[{"lang_code": "en", "model_name": ""}]),
            supported_languages=["en"],
            default_score_threshold=_LEAST_SCORE,
        )
        # Presidio's own marks look like tags, which prompts break up.
        operators = {
            kind: OperatorConfig("replace", {"new_value": f"[{kind}]"})
            for kind in analyzer.get_supported_entities("en")
        }
        untyped: Any = AnonymizerEngine
        return analyzer, untyped(), operators


def make_redact(settings: Settings) -> Redact | None:
    """Return what the settings name, None where they name nothing; it is loaded when it is first called."""
    return PresidioRedact() if settings.redact == "presidio" else None


async def redacted(redact: Redact | None, texts: Sequence[str]) -> list[str]:
    """Return texts as they may be stored.

    Raises:
        ConfigurationError: The function failed, or gave something else than text.
    """
    if redact is None or not texts:
        return list(texts)
    return await asyncio.to_thread(lambda: [_redacted(redact, text) for text in texts])


def _redacted(redact: Redact, text: str) -> str:
    try:
        kept: Any = redact(text)
    except ConfigurationError:
        raise
    except Exception as error:  # anybody's code; the text is not repeated, which its message may hold
        message = f"the function that redacts failed with {type(error).__name__}; the text was neither stored nor shown"
        raise ConfigurationError(message) from error
    if not isinstance(kept, str):
        message = f"the function that redacts gave {type(kept).__name__} instead of text; nothing was stored"
        raise ConfigurationError(message)
    return clean_text(kept)
