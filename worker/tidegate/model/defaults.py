"""Every built-in default and bound that is a number or a time, once.

Precedence at enqueue: ``using()`` > actor > the Queue's defaults > these.
"""

from datetime import timedelta
from typing import Final

LEASE: Final = timedelta(seconds=30)
"""A worker's right to its jobs, counted from its last good heartbeat by the database's clock."""

HEARTBEAT: Final = timedelta(seconds=5)
"""Time between two heartbeats."""

SELF_FENCE: Final = timedelta(seconds=25)
"""A worker stops its own jobs this long after the start of its last good heartbeat: before the lease runs out."""

POLL: Final = timedelta(seconds=1)
"""Longest wait of an idle worker between two looks at its queues; notifications only shorten it."""

GRACE: Final = timedelta(seconds=30)
"""Time that running jobs get after SIGTERM before they are given back."""

LOOP_STALL_LIMIT: Final = timedelta(minutes=2)
"""An event loop that does not turn for this long ends its worker, although the heartbeat thread is fine."""

SLOTS: Final = 10
"""Jobs that one worker runs at once, unless ``TIDEGATE_SLOTS`` or the Queue's ``workers.slots`` says otherwise."""

MAX_MESSAGES: Final = 1_000
"""Messages that a worker takes in at once where neither ``limits`` nor ``slots`` is given: more no-op jobs than that
saturate a core, and a worker that holds more than it can run takes work away from those that have time for it."""

RESUME_AT: Final = 0.75
"""Share of a pool's limit to which its use must fall before intake that backpressure paused goes on."""

MAX_SLOTS: Final = 10_000
"""Most slots of one worker, and most replicas of one Queue."""

MAX_ATTEMPTS: Final = 5
"""Attempts of a job before it is dead."""

MAX_MAX_ATTEMPTS: Final = 1_000
"""Highest ``max_attempts``; the lowest is 1."""

BACKOFF_FIRST: Final = timedelta(seconds=1)
"""Longest wait after the first failed attempt; it doubles with each one, and the wait is drawn from 0 to it."""

BACKOFF_MAX: Final = timedelta(minutes=5)
"""Where the doubling of the backoff ends."""

PRIORITY: Final = 0
"""Priority of a job; a higher one goes first."""

MIN_PRIORITY: Final = -32_768
"""Lowest priority (a smallint)."""

MAX_PRIORITY: Final = 32_767
"""Highest priority (a smallint)."""

KEEP_SUCCEEDED: Final = timedelta(hours=1)
"""How long a succeeded job stays in the history; zero keeps none."""

KEEP_DEAD: Final = timedelta(days=14)
"""How long a dead job stays in the history, where it can be retried; zero keeps none."""

MAX_PAYLOAD_BYTES: Final = 1024 * 1024
"""Largest payload, as UTF-8 JSON: of an app, changed by ``App(max_payload_bytes=)``, and of the database, changed by
``tidegate.set_max_payload_bytes``; the smaller of the two binds."""

MAX_PAYLOAD_DEPTH: Final = 64
"""Deepest nesting of a payload; the object of arguments itself is level 1."""

MAX_HEADERS_BYTES: Final = 8 * 1024
"""Largest headers of one job, as UTF-8 JSON."""

MAX_LIMIT: Final = 1_000_000
"""Highest ``max_running`` and ``max_starts``; the lowest is 0, which holds every job of the key back."""

MIN_WINDOW: Final = timedelta(milliseconds=100)
"""Shortest sliding window of ``max_starts``."""

MAX_WINDOW: Final = timedelta(hours=24)
"""Longest sliding window of ``max_starts``."""

WEIGHT: Final = 1
"""Share of a key in fair order where its policy names none."""

MAX_WEIGHT: Final = 1_000
"""Highest weight; the lowest is 1."""

DELETION_GRACE_PERIOD: Final = timedelta(seconds=30)
"""How long a policy outlives its Limit object under ``deletionPolicy: Delete``."""

SCALE_DOWN_WINDOW: Final = timedelta(minutes=2)
"""Fewer workers only when every recommendation in this window asked for fewer."""

IDLE_GRACE: Final = timedelta(minutes=5)
"""Idle time before the step to no worker at all, where ``minReplicas`` is 0."""

MIN_REPLICAS: Final = 0
"""Default of a Queue's ``workers.minReplicas``."""

MAX_REPLICAS: Final = 10
"""Default of a Queue's ``workers.maxReplicas``."""

TARGET_UTILIZATION: Final = 100
"""Percent of the slots that scaling plans for."""
