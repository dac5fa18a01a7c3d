"""Every error this package raises on purpose, as one tree.

DualmemError
├── InputError                 the caller's input cannot be used
│   ├── UnknownFormat          a file in no format that is known
│   ├── EmptyConversation      a file or a list without a single message
│   └── InvalidUser            a blank user id
├── ConfigurationError         settings that cannot work
│   └── ModelNotConfigured     no chat or embedding model is set
├── StoreError                 the store cannot do what was asked
│   ├── StoreLocked            another process has the embedded store open
│   ├── EmbeddingMismatch      the store was built with another embedding model
│   ├── KeyMismatch            the store is encrypted with another key, or not at all
│   ├── UserBusy               another writer is working on the same user
│   └── NotFound               no such memory or turn for this user
└── ModelError                 a model did not give a usable reply
    ├── ModelUnavailable       it could not be reached, refused, or ran out of time
    ├── ReplyTruncated         its reply was cut off at the output limit
    └── UnreadableReply        its reply is not what was asked for, after one repair round

Leaves differ by what a caller would do about them. The first two branches are ValueErrors as well: LangGraph Server
passes the messages of those on to its clients, and keeps others to itself, which may name hosts and folders. Doubt
about an answer is never an error: it is a verdict.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ConfigurationError",
    "DualmemError",
    "EmbeddingMismatch",
    "EmptyConversation",
    "InputError",
    "InvalidUser",
    "KeyMismatch",
    "ModelError",
    "ModelNotConfigured",
    "ModelUnavailable",
    "NotFound",
    "ReplyTruncated",
    "StoreError",
    "StoreLocked",
    "UnknownFormat",
    "UnreadableReply",
    "UserBusy",
]


class DualmemError(Exception):
    """Base of all errors raised by dualmem."""


class InputError(DualmemError, ValueError):
    """The input cannot be used; the message says which value and why."""


class UnknownFormat(InputError):
    """A file is in none of the formats that are known; the message names those."""


class EmptyConversation(InputError):
    """There is no message to remember."""


class InvalidUser(InputError):
    """A user id is missing or blank."""


class ConfigurationError(DualmemError, ValueError):
    """Settings contradict each other or name something that does not exist."""


class ModelNotConfigured(ConfigurationError):
    """No model is set; the message lists the ways to set one."""


class StoreError(DualmemError):
    """The store cannot do what was asked; nothing was changed."""


class StoreLocked(StoreError):
    """Another process has the embedded store open."""


class EmbeddingMismatch(StoreError):
    """The collection was made with an embedding model of another name or size."""


class KeyMismatch(StoreError):
    """The store is encrypted with another key than the one that is set, or only one of both is there."""


class UserBusy(StoreError):
    """Another writer holds this user's lease."""


class NotFound(StoreError):
    """No such record for this user. A record of another user is not found either."""


class ModelError(DualmemError):
    """A model did not give a usable reply.

    Attributes:
        calls: What was paid for all the same, as `ModelCall` records.
    """

    calls: tuple[Any, ...] = ()


class ModelUnavailable(ModelError):
    """The model could not be reached, refused, or did not reply in time."""


class ReplyTruncated(ModelError):
    """The reply was cut off at the output limit, so that facts may be missing from it."""


class UnreadableReply(ModelError):
    """The reply is not of the form asked for, even after one repair round."""
