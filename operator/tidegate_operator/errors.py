"""What the API server does to the operator, without the names of its client.

::

    TidegateError
    └── ClusterError
        ├── ClusterUnavailable      no answer, or none that can be used; nothing is known of the request's fate
        └── ClusterRefused          .status: the API server answered and said no
"""

# ruff: noqa: N818 - as in tidegate.errors

from __future__ import annotations

from tidegate.errors import TidegateError


class ClusterError(TidegateError):
    """A request to the API server failed; the message names the request and never holds a token."""


class ClusterUnavailable(ClusterError):
    """No answer within the time allowed, or one of a server that is starting, overloaded or broken."""


class ClusterRefused(ClusterError):
    """The API server refused the request. ``status`` is HTTP's, as in 403 for a missing right."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
