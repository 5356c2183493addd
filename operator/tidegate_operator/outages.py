"""What fails again and again: every failure is counted, and its beginning and its end are said once."""

from __future__ import annotations

import logging

from tidegate_operator.metrics import Metrics


class Outages:
    """Outages of one part of the operator, by what fails and about what."""

    def __init__(self, logger: logging.Logger, metrics: Metrics) -> None:
        self._logger, self._metrics = logger, metrics
        self._known: set[tuple[str, str]] = set()

    def failed(self, what: str, error: Exception, about: str = "") -> None:
        """Count a failure under ``what``, and say it where it is the first in a row."""
        self._metrics.failures.labels(what).inc()
        level = logging.DEBUG if (what, about) in self._known else logging.WARNING
        self._known.add((what, about))
        extra = {"error": str(error) or type(error).__name__, **({"about": about} if about else {})}
        self._logger.log(level, "%s failed and is tried again", what, extra=extra)

    def over(self, what: str, about: str = "") -> None:
        """Say that it works again, where it did not."""
        if (what, about) in self._known:
            self._known.discard((what, about))
            self._logger.info("%s works again", what, extra={"about": about} if about else {})

    def forget(self, what: str, about: str) -> None:
        """Forget what nobody asks about any more."""
        self._known.discard((what, about))
