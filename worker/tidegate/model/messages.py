"""Messages: a job in the hands of one worker, as limits and policies see it.

The payload is not part of it. A limit asks how large a payload is, and a large one is fetched only when its code
starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class ReceivedMessageT(Protocol):
    """What ``on_oversized_payload`` and ``LimitPolicyT.reserve`` are given."""

    @property
    def id(self) -> int:
        """The job's id."""

    @property
    def queue(self) -> str:
        """The queue that it was claimed from."""

    @property
    def actor(self) -> str:
        """Name of the actor that will run it."""

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""

    @property
    def max_attempts(self) -> int:
        """Attempts before the job is dead."""

    @property
    def priority(self) -> int:
        """The job's priority; a higher one went first."""

    @property
    def limit_key(self) -> str:
        """Key of its cluster-wide limit; empty where it has none."""

    @property
    def group_key(self) -> str:
        """Whom fairness is for."""

    @property
    def headers(self) -> Mapping[str, str] | None:
        """What ``using(headers=)`` said; None where nothing was said."""

    @property
    def payload_bytes(self) -> int:
        """Bytes of the payload as JSON text, as counted at enqueue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A message as a worker makes it of a claimed job; see `ReceivedMessageT` for the fields."""

    id: int
    queue: str
    actor: str
    attempt: int = 1
    max_attempts: int = 1
    priority: int = 0
    limit_key: str = ""
    group_key: str = ""
    headers: Mapping[str, str] | None = None
    payload_bytes: int = 0
