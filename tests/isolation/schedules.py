"""Specifications for isolationtester, made from the table of operations, and what its output says."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from tests.isolation.operations import OPERATIONS, Operation, Part

Steps = tuple[str, ...]

END = ("stand", "settle", "drain")
"""After both transactions: compare and tell, let whoever can start, end everything."""

TIMEOUT_SECONDS = 600
"""For one run of the tester; what it waits for one step is bounded by `SESSION`."""

SESSION = "setup { set lock_timeout = '3s'; set client_min_messages = warning; }"
"""A wait that nobody predicted ends in an error, which no expected output has."""

STEP = re.compile(r"^step (?P<name>[\w-]+): (?P<rest>.*)$")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two operations at once: the first played by worker one, the second by worker two."""

    first: Operation
    second: Operation

    @property
    def name(self) -> str:
        """Such as ``claim + ack``."""
        return f"{self.first.name} + {self.second.name}"

    def waiting(self, steps: Steps) -> str:
        """Tell which operation waits for the other transaction in this order: ``one``, ``two`` or nobody."""
        one, two = Part(1, self.first), Part(2, self.second)
        place = steps.index
        if place("one") < place("two") < place("commit1") and two.waits_for(one):
            return "two"
        if place("two") < place("one") < place("commit2") and one.waits_for(two):
            return "one"
        return ""

    def orders(self, *, every_begin: bool) -> Iterator[Steps]:
        """Yield every order of the steps that can happen.

        Args:
            every_begin: with each BEGIN at every place before its operation, and not only before everything.
        """
        for order in sorted(set(permutations((0, 0, 0, 1, 1, 1)))):
            left = iter(("begin1", "one", "commit1")), iter(("begin2", "two", "commit2"))
            steps = tuple(next(left[who]) for who in order)
            first_commit = "one" if steps.index("commit1") < steps.index("commit2") else "two"
            # whoever waits for the other cannot commit first
            if first_commit != self.waiting(steps) and (every_begin or steps[:2] == ("begin1", "begin2")):
                yield steps


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one permutation came to.

    Attributes:
        waited: the operations that had to wait.
        said: the answers of both operations.
        stand: who runs what, what waits, what is over, when both are committed.
        settled: what started then, when everybody who may claim does.
    """

    pair: Pair
    steps: Steps
    waited: str
    said: tuple[str, str]
    stand: str
    settled: str

    @property
    def order(self) -> Steps:
        """Operations and commits; where a transaction began must make no difference."""
        return tuple(step for step in self.steps if not step.startswith("begin"))

    @property
    def told(self) -> tuple[tuple[str, str], str, str]:
        """Everything that was seen."""
        return self.said, self.stand, self.settled


Schedule = tuple[Pair, Steps]


def schedules_of(first: Operation, *, every_begin: bool) -> list[Schedule]:
    """Return the schedules of all pairs that begin with this operation; each pair has one place in the whole table."""
    pairs = [Pair(first, second) for second in OPERATIONS[OPERATIONS.index(first) :]]
    return [(pair, steps) for pair in pairs for steps in pair.orders(every_begin=every_begin)]


def specification(schedules: Sequence[Schedule]) -> str:
    """Return one specification for these schedules, in order."""
    lines = ["setup { set session_replication_role = replica; call scene.put_back(); }"]
    for me in (1, 2):
        played = {(pair.first if me == 1 else pair.second).name for pair, _ in schedules}
        lines += [f"session worker{me}", SESSION, f"step begin{me} {{ BEGIN; }}", f"step commit{me} {{ COMMIT; }}"]
        lines += [
            f'step "{operation.name}{me}" {{ select {Part(me, operation).sql} as said; }}'
            for operation in OPERATIONS
            if operation.name in played
        ]
    lines += ["session judge", SESSION]
    lines += [f"step {name} {{ select scene.{name}() as said; }}" for name in ("stand", "settle")]
    lines += ["step drain { call scene.drain(); }"]
    for pair, steps in schedules:
        names = {"one": f'"{pair.first.name}1"', "two": f'"{pair.second.name}2"'}
        lines.append(" ".join(["permutation", *(names.get(step, step) for step in steps), *END]))
    return "\n".join([*lines, ""])


def run(tester: Path, database_url: str, schedules: Sequence[Schedule]) -> list[Outcome]:
    """Let isolationtester run these schedules; return what each came to.

    Raises:
        AssertionError: the tester itself failed, or a step that is no operation did.
    """
    done = subprocess.run(
        [tester, database_url],
        input=specification(schedules),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    printed = done.stdout.split("\nstarting permutation: ")[1:]
    assert done.returncode == 0, f"isolationtester ended with {done.returncode}\n{done.stderr}\n{done.stdout[-2000:]}"
    assert len(printed) == len(schedules), f"{len(printed)} of {len(schedules)} permutations were run"
    return [_outcome(part, *schedule) for part, schedule in zip(printed, schedules, strict=True)]


def _outcome(printed: str, pair: Pair, steps: Steps) -> Outcome:
    first, *lines = printed.splitlines()
    roles = dict(zip(first.replace('"', "").split(), [*steps, *END], strict=True))
    said: dict[str, str] = {}
    waited: list[str] = []
    step = ""
    rest = iter(lines)
    for line in rest:
        if found := STEP.match(line):
            step = roles[found["name"]]
            if found["rest"].endswith("<waiting ...>"):
                waited.append(step)
        elif line.startswith("----"):
            said[step] = next(rest).strip()
        elif line.startswith("ERROR:"):
            said[step] = line
    failed = {name: text for name, text in said.items() if text.startswith("ERROR:") and name not in {"one", "two"}}
    assert not failed, f"{pair.name}, {first}: {failed}"
    return Outcome(pair, steps, " ".join(waited), (said["one"], said["two"]), said["stand"], said["settle"])
