"""Good and bad names, durations, limits and objects, once: pydantic, SQL, the CLI and the API server judge them alike.

Every test that asks "is this legal?" takes its cases from here. A row says what is given and what must come of it; how
a layer is asked (keyword arguments, a JSON object, flags, a manifest) is the layer's own test's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FOUR_BYTES: Final = "\U0001f30a"
"""One code point of four bytes of UTF-8."""


@dataclass(frozen=True)
class Text:
    """A name or a key, and whether it is legal."""

    label: str
    value: str
    good: bool

    @property
    def fits_a_connection(self) -> bool:
        """False where neither a driver nor a command line can carry the text: NUL, and halves of surrogate pairs."""
        return "\0" not in self.value and not any("\ud800" <= character <= "\udfff" for character in self.value)


NAMES: Final = (
    Text("one letter", "a", good=True),
    Text("usual", "vendor-x", good=True),
    Text("a blank inside", "vendor x", good=True),
    Text("path and punctuation", "tenant/42:mail@example.org#1?", good=True),
    Text("upper case", "VIDEO_JOBS", good=True),
    Text("digits alone", "0", good=True),
    Text("quotes", 'it\'s "quoted"', good=True),
    Text("SQL", "x'); drop table tidegate.jobs; --", good=True),
    Text("placeholders", "$1 %s %(a)s {b} :c ?", good=True),
    Text("backslash and wildcards", "\\x00 % _ * .", good=True),
    Text("first printable", "!", good=True),
    Text("last of ASCII", "~", good=True),
    Text("Cyrillic", "лимит", good=True),
    Text("a combining accent", "e\u0301", good=True),
    Text("no-break space at the end: no ASCII blank", "a\u00a0", good=True),
    Text("next line, a control character beyond ASCII", "a\u0085", good=True),
    Text("line separator beyond ASCII", "\u2028", good=True),
    Text("byte order mark", "\ufeff", good=True),
    Text("four bytes", FOUR_BYTES, good=True),
    Text("199 characters", "x" * 199, good=True),
    Text("200 characters", "x" * 200, good=True),
    Text("200 characters of four bytes", FOUR_BYTES * 200, good=True),
    Text("empty", "", good=False),
    Text("a blank", " ", good=False),
    Text("blanks", "   ", good=False),
    Text("a blank first", " a", good=False),
    Text("a blank last", "a ", good=False),
    Text("line feed alone", "\n", good=False),
    Text("line feed first", "\na", good=False),
    Text("line feed inside", "a\nb", good=False),
    Text("line feed last", "a\n", good=False),
    Text("two line feeds last", "a\n\n", good=False),
    Text("carriage return last", "a\r", good=False),
    Text("tab inside", "a\tb", good=False),
    Text("escape inside", "a\x1bb", good=False),
    Text("last control character inside", "a\x1fb", good=False),
    Text("delete inside", "a\x7fb", good=False),
    Text("delete last", "a\x7f", good=False),
    Text("NUL alone", "\0", good=False),
    Text("NUL inside", "a\0b", good=False),
    Text("NUL last", "a\0", good=False),
    Text("half of a surrogate pair", "\ud83c", good=False),
    Text("the other half inside", "a\udf0ab", good=False),
    Text("201 characters", "x" * 201, good=False),
    Text("201 characters of four bytes", FOUR_BYTES * 201, good=False),
    Text("200 characters and a line feed", "x" * 200 + "\n", good=False),
)
"""Limit keys, queue names, actor names and job keys; for a job's own keys the empty text is legal as well."""


@dataclass(frozen=True)
class DurationText:
    """A duration as people write it; ``milliseconds`` is None where it is none."""

    text: str
    milliseconds: int | None
    seconds_only: bool = True
    """It is also legal in fields that take no milliseconds."""


DURATIONS: Final = (
    DurationText("0s", 0),
    DurationText("60s", 60_000),
    DurationText("1m", 60_000),
    DurationText("1h30m", 5_400_000),
    DurationText("24h", 86_400_000),
    DurationText("1s1s", 2_000),
    DurationText("30m1h", 5_400_000),
    DurationText("0001s", 1_000),
    DurationText("2562047h47m16s", 9_223_372_036_000),
    DurationText("500ms", 500, seconds_only=False),
    DurationText("0ms", 0, seconds_only=False),
    DurationText("1m1ms", 60_001, seconds_only=False),
    DurationText("2562047h47m16s854ms", 9_223_372_036_854, seconds_only=False),
    DurationText("", None),
    DurationText("60", None),
    DurationText("s", None),
    DurationText("1.5h", None),
    DurationText("-1s", None),
    DurationText("+1s", None),
    DurationText("1 s", None),
    DurationText(" 1s", None),
    DurationText("1s ", None),
    DurationText("1s\n", None),
    DurationText("1S", None),
    DurationText("1d", None),
    DurationText("1us", None),
    DurationText("PT1M", None),
    DurationText("\u0661s", None),
    DurationText("2562047h47m16s855ms", None),
    DurationText("99999999999999999h", None),
    DurationText("0000000000000000001s", 1_000),
    DurationText("00000000000000000001s", None),
)


@dataclass(frozen=True)
class LimitCase:
    """``set_limit``: the policy before, the arguments given, and the policy after or the argument that is refused.

    ``window`` stands for milliseconds here. An argument that is not in ``change`` is left out, None removes that part.
    """

    label: str
    change: Mapping[str, Any]
    after: Mapping[str, int] = field(default_factory=dict)
    refused: str | None = None
    before: Mapping[str, int] = field(default_factory=dict)

    @property
    def numeric(self) -> bool:
        """True where every value is an integer or None: other types cannot be said in every layer."""
        return all(value is None or type(value) is int for value in self.change.values())


FULL: Final = {"max_running": 4, "max_starts": 100, "window": 60_000, "weight": 2}
RATE: Final = {"max_starts": 100, "window": 60_000}

LIMIT_CHANGES: Final = (
    LimitCase("max_running alone", {"max_running": 4}, {"max_running": 4}),
    LimitCase("0 running holds everything", {"max_running": 0}, {"max_running": 0}),
    LimitCase("most running", {"max_running": 1_000_000}, {"max_running": 1_000_000}),
    LimitCase("the rate alone", RATE, RATE),
    LimitCase("0 starts hold everything", {"max_starts": 0, "window": 1_000}, {"max_starts": 0, "window": 1_000}),
    LimitCase("most starts", {"max_starts": 1_000_000, "window": 1_000}, {"max_starts": 1_000_000, "window": 1_000}),
    LimitCase("shortest window", {"max_starts": 1, "window": 100}, {"max_starts": 1, "window": 100}),
    LimitCase("longest window", {"max_starts": 1, "window": 86_400_000}, {"max_starts": 1, "window": 86_400_000}),
    LimitCase("weight alone", {"weight": 1}, {"weight": 1}),
    LimitCase("most weight", {"weight": 1_000}, {"weight": 1_000}),
    LimitCase("all at once", FULL, FULL),
    LimitCase("left out keeps: max_running", {"max_running": 7}, {**FULL, "max_running": 7}, before=FULL),
    LimitCase("left out keeps: weight", {"weight": 9}, {**FULL, "weight": 9}, before=FULL),
    LimitCase("max_starts with the window known", {"max_starts": 5}, {**FULL, "max_starts": 5}, before=FULL),
    LimitCase("window with max_starts known", {"window": 500}, {**FULL, "window": 500}, before=FULL),
    LimitCase("0 starts with the window known", {"max_starts": 0}, {**RATE, "max_starts": 0}, before=RATE),
    LimitCase("None removes max_running", {"max_running": None}, {**RATE, "weight": 2}, before=FULL),
    LimitCase("None removes weight", {"weight": None}, {**RATE, "max_running": 4}, before=FULL),
    LimitCase(
        "max_starts=None removes the whole rate", {"max_starts": None}, {"max_running": 4, "weight": 2}, before=FULL
    ),
    LimitCase("both halves of the rate as None", {"max_starts": None, "window": None}, {}, before=RATE),
    LimitCase("the last part removed", {"max_running": None}, {}, before={"max_running": 4}),
    LimitCase("one removed, one set", {"max_running": None, "weight": 3}, {"weight": 3}, before={"max_running": 4}),
    LimitCase("removing what is not there", {"max_starts": None}, {"max_running": 4}, before={"max_running": 4}),
    LimitCase("window=None without a rate", {"window": None}, {"max_running": 4}, before={"max_running": 4}),
    LimitCase("removing without a policy", {"max_running": None, "weight": None}, {}),
    LimitCase("max_starts without a window", {"max_starts": 100}, refused="max_starts"),
    LimitCase("0 starts without a window", {"max_starts": 0}, refused="max_starts"),
    LimitCase("max_starts, other parts known", {"max_starts": 1}, refused="max_starts", before={"max_running": 4}),
    LimitCase("a window without max_starts", {"window": 60_000}, refused="window"),
    LimitCase("a window, other parts known", {"window": 60_000}, refused="window", before={"max_running": 4}),
    LimitCase("window=None, max_starts stays", {"window": None}, refused="window", before=FULL),
    LimitCase("window=None, max_starts set", {"max_starts": 1, "window": None}, refused="window", before=FULL),
    LimitCase("window set, max_starts=None", {"max_starts": None, "window": 1_000}, refused="window", before=FULL),
    LimitCase("negative max_running", {"max_running": -1}, refused="max_running"),
    LimitCase("max_running too large", {"max_running": 1_000_001}, refused="max_running"),
    LimitCase("max_running beyond 32 bits", {"max_running": 2**31}, refused="max_running"),
    LimitCase("max_running beyond 64 bits", {"max_running": 2**64}, refused="max_running"),
    LimitCase("negative max_starts", {"max_starts": -1, "window": 1_000}, refused="max_starts"),
    LimitCase("max_starts too large", {"max_starts": 1_000_001, "window": 1_000}, refused="max_starts"),
    LimitCase("no window", {"max_starts": 1, "window": 0}, refused="window"),
    LimitCase("window too short", {"max_starts": 1, "window": 99}, refused="window"),
    LimitCase("negative window", {"max_starts": 1, "window": -60_000}, refused="window"),
    LimitCase("window too long", {"max_starts": 1, "window": 86_400_001}, refused="window"),
    LimitCase("weight 0", {"weight": 0}, refused="weight"),
    LimitCase("negative weight", {"weight": -1}, refused="weight"),
    LimitCase("weight too large", {"weight": 1_001}, refused="weight"),
    LimitCase("one good, one bad", {"max_running": 4, "weight": 0}, refused="weight", before=FULL),
    LimitCase("True is no number", {"max_running": True}, refused="max_running"),
    LimitCase("False is no number", {"max_starts": False, "window": 1_000}, refused="max_starts"),
    LimitCase("a whole float is no integer", {"max_running": 4.0}, refused="max_running"),
    LimitCase("a float", {"weight": 1.5}, refused="weight"),
    LimitCase("NaN", {"max_running": float("nan")}, refused="max_running"),
    LimitCase("text is no number", {"max_running": "4"}, refused="max_running"),
    LimitCase("a list", {"weight": [1]}, refused="weight"),
)


@dataclass(frozen=True)
class ObjectCase:
    """The ``spec`` of a Limit or Queue object: what it asks of the row, or the paths that are refused."""

    label: str
    spec: Any
    row: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    name: str = "vendor-x"


LIMIT_OBJECTS: Final = (
    ObjectCase("max_running", {"maxRunning": 4}, {"max_running": 4}),
    ObjectCase("0 running", {"maxRunning": 0}, {"max_running": 0}),
    ObjectCase("the rate", {"rate": {"maxStarts": 100, "window": "1m"}}, RATE),
    ObjectCase("0 starts", {"rate": {"maxStarts": 0, "window": "100ms"}}, {"max_starts": 0, "window": 100}),
    ObjectCase("longest window", {"rate": {"maxStarts": 1, "window": "24h"}}, {"max_starts": 1, "window": 86_400_000}),
    ObjectCase("weight", {"weight": 1_000}, {"weight": 1_000}),
    ObjectCase(
        "everything",
        {
            "key": "Vendor X",
            "maxRunning": 4,
            "rate": {"maxStarts": 100, "window": "60s"},
            "weight": 2,
            "deletionPolicy": "Retain",
            "deletionGracePeriod": "1h30m",
        },
        {"key": "Vendor X", **FULL},
    ),
    ObjectCase("null counts as left out", {"maxRunning": 4, "weight": None, "key": None}, {"max_running": 4}),
    ObjectCase("a long name with a key", {"key": "k", "weight": 1}, {"key": "k", "weight": 1}, name="x" * 253),
    ObjectCase("a name of 200 characters", {"weight": 1}, {"key": "x" * 200, "weight": 1}, name="x" * 200),
    ObjectCase("a name of 201 characters", {"weight": 1}, refused=("metadata.name",), name="x" * 201),
    ObjectCase("no spec", None, refused=("spec",)),
    ObjectCase("nothing set", {}, refused=("spec",)),
    ObjectCase("a key alone", {"key": "k"}, refused=("spec",)),
    ObjectCase("null alone", {"maxRunning": None}, refused=("spec",)),
    ObjectCase("a list", [{"maxRunning": 4}], refused=("spec",)),
    ObjectCase("an unknown field", {"maxRunning": 4, "maxrunning": 4}, refused=("spec.maxrunning",)),
    ObjectCase("the database's spelling", {"max_running": 4}, refused=("spec.max_running",)),
    ObjectCase("negative", {"maxRunning": -1}, refused=("spec.maxRunning",)),
    ObjectCase("too many", {"maxRunning": 1_000_001}, refused=("spec.maxRunning",)),
    ObjectCase("a boolean", {"maxRunning": True}, refused=("spec.maxRunning",)),
    ObjectCase("text", {"maxRunning": "4"}, refused=("spec.maxRunning",)),
    ObjectCase("a fraction", {"maxRunning": 4.5}, refused=("spec.maxRunning",)),
    ObjectCase("max_starts alone", {"rate": {"maxStarts": 1}}, refused=("spec.rate.window",)),
    ObjectCase("a window alone", {"rate": {"window": "1m"}}, refused=("spec.rate.maxStarts",)),
    ObjectCase("an empty rate", {"rate": {}}, refused=("spec.rate.maxStarts", "spec.rate.window")),
    ObjectCase("a rate that is a number", {"rate": 100}, refused=("spec.rate",)),
    ObjectCase(
        "an unknown field inside",
        {"rate": {"maxStarts": 1, "window": "1m", "burst": 2}},
        refused=("spec.rate.burst",),
    ),
    ObjectCase("window too short", {"rate": {"maxStarts": 1, "window": "99ms"}}, refused=("spec.rate.window",)),
    ObjectCase("window too long", {"rate": {"maxStarts": 1, "window": "24h1ms"}}, refused=("spec.rate.window",)),
    ObjectCase("no window", {"rate": {"maxStarts": 1, "window": "0s"}}, refused=("spec.rate.window",)),
    ObjectCase("window without a unit", {"rate": {"maxStarts": 1, "window": "60"}}, refused=("spec.rate.window",)),
    ObjectCase("window as a number", {"rate": {"maxStarts": 1, "window": 60}}, refused=("spec.rate.window",)),
    ObjectCase("weight 0", {"weight": 0}, refused=("spec.weight",)),
    ObjectCase("weight too large", {"weight": 1_001}, refused=("spec.weight",)),
    ObjectCase("deletion policy", {"weight": 1, "deletionPolicy": "delete"}, refused=("spec.deletionPolicy",)),
    ObjectCase(
        "grace in milliseconds", {"weight": 1, "deletionGracePeriod": "500ms"}, refused=("spec.deletionGracePeriod",)
    ),
    ObjectCase("empty key", {"weight": 1, "key": ""}, refused=("spec.key",)),
    ObjectCase(
        "several at once",
        {"maxRunning": -1, "weight": 0, "burst": 1},
        refused=("spec.maxRunning", "spec.weight", "spec.burst"),
    ),
)

QUEUE_OBJECTS: Final = (
    ObjectCase("nothing set", {}, {"order": "priority", "suspended": False}),
    ObjectCase("another name", {"name": "Mail out"}, {"name": "Mail out"}),
    ObjectCase("fair", {"order": "Fair"}, {"order": "fair"}),
    ObjectCase("suspended", {"suspend": True}, {"suspended": True}),
    ObjectCase(
        "defaults",
        {"defaults": {"priority": -32_768, "maxAttempts": 1_000, "timeout": "10m"}},
        {"default_priority": -32_768, "default_max_attempts": 1_000, "default_timeout": 600},
    ),
    ObjectCase("highest priority", {"defaults": {"priority": 32_767}}, {"default_priority": 32_767}),
    ObjectCase(
        "retention", {"retention": {"succeeded": "0s", "dead": "336h"}}, {"keep_succeeded": 0, "keep_dead": 1_209_600}
    ),
    ObjectCase("null counts as left out", {"order": None, "workers": None, "scaling": None, "defaults": None}),
    ObjectCase("workers", {"workers": {"deploymentRef": {"name": "mail"}, "minReplicas": 10}}),
    ObjectCase(
        "workers by hand", {"scaling": {"mode": "Manual"}, "workers": {"deploymentRef": {"name": "m"}, "replicas": 0}}
    ),
    ObjectCase("scaling off", {"scaling": {"mode": "Off", "targetUtilization": 1, "idleGrace": "0s"}}),
    ObjectCase("no spec", None, refused=("spec",)),
    ObjectCase("text", "mail", refused=("spec",)),
    ObjectCase("an unknown field", {"paused": True}, refused=("spec.paused",)),
    ObjectCase("the database's order", {"order": "fair"}, refused=("spec.order",)),
    ObjectCase("suspend as text", {"suspend": "yes"}, refused=("spec.suspend",)),
    ObjectCase("suspend as a number", {"suspend": 1}, refused=("spec.suspend",)),
    ObjectCase("empty name", {"name": ""}, refused=("spec.name",)),
    ObjectCase("a name of 201 characters", {}, refused=("metadata.name",), name="x" * 201),
    ObjectCase("workers without a Deployment", {"workers": {}}, refused=("spec.workers.deploymentRef",)),
    ObjectCase(
        "a Deployment without a name",
        {"workers": {"deploymentRef": {"name": ""}}},
        refused=("spec.workers.deploymentRef.name",),
    ),
    ObjectCase(
        "a pod template",
        {"workers": {"deploymentRef": {"name": "m"}, "template": {}}},
        refused=("spec.workers.template",),
    ),
    ObjectCase("no slots", {"workers": {"deploymentRef": {"name": "m"}, "slots": 0}}, refused=("spec.workers.slots",)),
    ObjectCase(
        "at most no worker",
        {"workers": {"deploymentRef": {"name": "m"}, "maxReplicas": 0}},
        refused=("spec.workers.maxReplicas",),
    ),
    ObjectCase(
        "least above most",
        {"workers": {"deploymentRef": {"name": "m"}, "minReplicas": 3, "maxReplicas": 2}},
        refused=("spec.workers.minReplicas",),
    ),
    ObjectCase(
        "least above the default of most",
        {"workers": {"deploymentRef": {"name": "m"}, "minReplicas": 11}},
        refused=("spec.workers.minReplicas",),
    ),
    ObjectCase("Manual without workers", {"scaling": {"mode": "Manual"}}, refused=("spec.scaling.mode",)),
    ObjectCase(
        "Manual without replicas",
        {"scaling": {"mode": "Manual"}, "workers": {"deploymentRef": {"name": "m"}}},
        refused=("spec.scaling.mode",),
    ),
    ObjectCase(
        "Off without quotes, as YAML 1.1 reads it", {"scaling": {"mode": False}}, refused=("spec.scaling.mode",)
    ),
    ObjectCase(
        "more than all slots", {"scaling": {"targetUtilization": 101}}, refused=("spec.scaling.targetUtilization",)
    ),
    ObjectCase(
        "scaling in milliseconds", {"scaling": {"scaleDownWindow": "9ms"}}, refused=("spec.scaling.scaleDownWindow",)
    ),
    ObjectCase("priority too low", {"defaults": {"priority": -32_769}}, refused=("spec.defaults.priority",)),
    ObjectCase("priority too high", {"defaults": {"priority": 32_768}}, refused=("spec.defaults.priority",)),
    ObjectCase("no attempts", {"defaults": {"maxAttempts": 0}}, refused=("spec.defaults.maxAttempts",)),
    ObjectCase("too many attempts", {"defaults": {"maxAttempts": 1_001}}, refused=("spec.defaults.maxAttempts",)),
    ObjectCase("no time at all", {"defaults": {"timeout": "0s"}}, refused=("spec.defaults.timeout",)),
    ObjectCase("retention in days", {"retention": {"dead": "14d"}}, refused=("spec.retention.dead",)),
    ObjectCase("retention as a number", {"retention": {"succeeded": 3600}}, refused=("spec.retention.succeeded",)),
)
"""For Queue objects, durations in ``row`` are seconds, as SQL's ``set_queue`` takes them."""
