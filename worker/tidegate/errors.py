"""Every error that Tidegate raises on purpose.

::

    TidegateError
    ├── InvalidInput (also ValueError)      .field, .rule: what the caller handed in breaks a rule
    │   ├── InvalidName                     a limit key, group key, queue, actor or job key
    │   ├── InvalidDuration                 a text such as "1h30m"
    │   ├── InvalidLimit                    an argument of set_limit
    │   ├── InvalidQueue                    a setting of a queue
    │   ├── InvalidJob                      an option of using() or of an actor
    │   ├── InvalidPayload                  arguments or headers that JSON or the size bound does not allow
    │   ├── InvalidCapacity                 a value of MessageLimits, ActorLimits or BackpressurePolicy
    │   └── InvalidManifest                 .problems: every broken path of a Limit or Queue object
    ├── InvalidType (also TypeError)        .field, .rule: a value of MessageLimits and its like is of the wrong type
    ├── ConfigurationError                  the program or its environment is set up wrongly
    ├── DatabaseError                       Postgres refused or did not answer
    │   ├── SchemaOutdated                  .found, .needed: the schema is not the one of this release
    │   └── DatabaseUnavailable             no connection within the time allowed
    ├── PolicyFailed                        .policy, .phase: a limit policy raised, so the worker stops
    ├── NotFound                            .thing: no job, limit, queue or worker of that name
    └── Conflict                            the thing exists and its state forbids the change
        └── ObjectOwned                     .name, .owner: a Kubernetes object decides about it
            ├── LimitOwned
            └── QueueOwned

A message says what was wrong and what to do instead. No message holds a payload, a password or a database URL.
"""

# ruff: noqa: N818 - the tree is read as sentences: except LimitOwned, raise NotFound

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

__all__ = [
    "ConfigurationError",
    "Conflict",
    "DatabaseError",
    "DatabaseUnavailable",
    "InvalidCapacity",
    "InvalidDuration",
    "InvalidInput",
    "InvalidJob",
    "InvalidLimit",
    "InvalidManifest",
    "InvalidName",
    "InvalidPayload",
    "InvalidQueue",
    "InvalidType",
    "LimitOwned",
    "ManifestProblem",
    "NotFound",
    "ObjectOwned",
    "PolicyFailed",
    "QueueOwned",
    "SchemaOutdated",
    "TidegateError",
]


class TidegateError(Exception):
    """Root of the tree; catch it to catch all that Tidegate raises on purpose."""


class InvalidInput(TidegateError, ValueError):
    """An argument breaks a rule. ``field`` is its name as the caller typed it, ``rule`` reads on from there.

    ``InvalidInput("max_running", "must be at least 0; got -1")`` prints as ``max_running must be at least 0; got -1``.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field} {self.rule}"


class InvalidName(InvalidInput):
    """A key or name breaks the rule of ``tidegate.model.names``."""


class InvalidDuration(InvalidInput):
    """A text is no duration in the sense of ``tidegate.model.durations``."""


class InvalidLimit(InvalidInput):
    """An argument of ``set_limit`` is out of bounds, or the policy would be left half set."""


class InvalidQueue(InvalidInput):
    """A setting of a queue is out of bounds."""


class InvalidJob(InvalidInput):
    """An option of ``using()`` or of an actor's declaration is out of bounds or contradicts another one."""


class InvalidPayload(InvalidInput):
    """Arguments or headers cannot be stored as JSON, or are larger than allowed; names the path, never the value."""


class InvalidCapacity(InvalidInput):
    """A value of ``MessageLimits``, ``ActorLimits`` or ``BackpressurePolicy`` is out of bounds or unknown."""


class ManifestProblem(NamedTuple):
    """One broken rule of a manifest. ``path`` leads from the document's root: ``("spec", "rate", "maxStarts")``."""

    path: tuple[str | int, ...]
    rule: str

    @property
    def field(self) -> str:
        """The path as people write it: ``spec.rate.maxStarts``; ``document`` for the root."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}"
        return text.removeprefix(".") or "document"

    def __str__(self) -> str:
        return f"{self.field} {self.rule}"


class InvalidManifest(InvalidInput):
    """A ``Limit`` or ``Queue`` object breaks rules of its kind: one line each, the first as ``field`` and ``rule``."""

    def __init__(self, problems: Sequence[ManifestProblem]) -> None:
        super().__init__(problems[0].field, problems[0].rule)
        self.args = (tuple(problems),)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class InvalidType(TidegateError, TypeError):
    """An argument is of the wrong type: a mistake in the program, where ``InvalidInput`` may be one in its data."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field} {self.rule}"


class ConfigurationError(TidegateError):
    """A setting, an environment variable or the way an app is built is wrong; the message names it."""


class DatabaseError(TidegateError):
    """Postgres refused a statement or did not answer; the cause is chained."""


class SchemaOutdated(DatabaseError):
    """The schema ``tidegate`` is missing (``found`` is None) or its version is not the one that this release needs."""

    def __init__(self, found: int | None, needed: int) -> None:
        super().__init__(found, needed)
        self.found = found
        self.needed = needed

    def __str__(self) -> str:
        if self.found is None:
            return "the database has no schema tidegate yet; create it with: tidegate schema migrate"
        if self.found > self.needed:
            return (
                f"the schema tidegate is at version {self.found}, newer than version {self.needed} of this release;"
                " upgrade this installation of tidegate"
            )
        return (
            f"the schema tidegate is at version {self.found}, this release needs version {self.needed};"
            " bring it up to date with: tidegate schema migrate"
        )


class DatabaseUnavailable(DatabaseError):
    """No connection to Postgres within the time allowed; the message names host and port, never the password."""


class PolicyFailed(TidegateError):
    """A limit policy raised, or handed out something that cannot be released; the cause is chained.

    The worker takes nothing in any more, gives the message back unspent, drains and exits non-zero. ``policy`` is the
    policy's class, ``phase`` the call that failed: ``reserve`` or ``release``.
    """

    def __init__(self, policy: str, phase: str) -> None:
        super().__init__(policy, phase)
        self.policy = policy
        self.phase = phase

    def __str__(self) -> str:
        return (
            f"limit policy {self.policy} failed in {self.phase}(); a policy must handle its own errors, "
            "for example by letting a message pass, or by waiting, when it cannot tell the price"
        )


class NotFound(TidegateError):
    """There is no such thing. ``NotFound("job 17", "list jobs with: tidegate jobs list")``."""

    def __init__(self, thing: str, instead: str) -> None:
        super().__init__(thing, instead)
        self.thing = thing
        self.instead = instead

    def __str__(self) -> str:
        return f"there is no {self.thing}; {self.instead}"


class Conflict(TidegateError):
    """The thing exists, and its present state forbids the change; the message says which state would allow it."""


class ObjectOwned(Conflict):
    """A Kubernetes object decides about this row, so a change by hand would be put back.

    ``owner`` is the row's column ``owner``: cluster, namespace, name and uid of the object.
    """

    kind: ClassVar[str]
    plural: ClassVar[str]
    row: ClassVar[str]

    def __init__(self, name: str, owner: Mapping[str, object]) -> None:
        super().__init__(name, owner)
        self.name = name
        self.owner = dict(owner)

    def __str__(self) -> str:
        namespace = str(self.owner.get("namespace") or "default")
        name = str(self.owner.get("name") or "?")
        cluster = f" of cluster {self.owner['cluster']}" if self.owner.get("cluster") else ""
        return (
            f"{self.row} {self.name!r} belongs to the {self.kind} object {namespace}/{name}{cluster}; change it with:"
            f" kubectl edit {self.plural}.tidegate.dev {name} --namespace {namespace}"
            " (with --force a change by hand is made all the same, and the operator puts it back)"
        )


class LimitOwned(ObjectOwned):
    """The key's policy belongs to a ``Limit`` object."""

    kind = "Limit"
    plural = "limits"
    row = "limit key"


class QueueOwned(ObjectOwned):
    """The queue's settings belong to a ``Queue`` object."""

    kind = "Queue"
    plural = "queues"
    row = "queue"
