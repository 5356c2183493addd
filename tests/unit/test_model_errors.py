"""Errors: one tree, messages that say what to do, and copies that survive a process boundary."""

from __future__ import annotations

import pickle

import pytest

from tidegate import errors
from tidegate.errors import (
    Conflict,
    DatabaseError,
    InvalidInput,
    InvalidLimit,
    InvalidManifest,
    LimitOwned,
    ManifestProblem,
    NotFound,
    QueueOwned,
    SchemaOutdated,
    TidegateError,
)

OWNER = {"cluster": "c1", "namespace": "team-a", "name": "vendor-x", "uid": "u"}

CASES: list[tuple[TidegateError, str]] = [
    (InvalidLimit("weight", "must be at least 1; got 0"), "weight must be at least 1; got 0"),
    (
        InvalidManifest([ManifestProblem(("spec", "rate", "window"), "is required"), ManifestProblem((), "is bad")]),
        "spec.rate.window is required\ndocument is bad",
    ),
    (
        SchemaOutdated(None, 2),
        "the database has no schema tidegate yet; create it with: tidegate schema migrate",
    ),
    (
        SchemaOutdated(1, 2),
        (
            "the schema tidegate is at version 1, this release needs version 2;"
            " bring it up to date with: tidegate schema migrate"
        ),
    ),
    (
        SchemaOutdated(3, 2),
        (
            "the schema tidegate is at version 3, newer than version 2 of this release;"
            " upgrade this installation of tidegate"
        ),
    ),
    (
        NotFound("job 17", "list jobs with: tidegate jobs list"),
        "there is no job 17; list jobs with: tidegate jobs list",
    ),
    (
        LimitOwned("Vendor X", OWNER),
        (
            "limit key 'Vendor X' belongs to the Limit object team-a/vendor-x of cluster c1; change it with:"
            " kubectl edit limits.tidegate.dev vendor-x --namespace team-a"
            " (with --force a change by hand is made all the same, and the operator puts it back)"
        ),
    ),
    (
        QueueOwned("mail", {"name": "mail"}),
        (
            "queue 'mail' belongs to the Queue object default/mail; change it with:"
            " kubectl edit queues.tidegate.dev mail --namespace default"
            " (with --force a change by hand is made all the same, and the operator puts it back)"
        ),
    ),
]


@pytest.mark.parametrize(("error", "message"), CASES, ids=lambda value: type(value).__name__)
def test_messages(error: TidegateError, message: str) -> None:
    assert str(error) == message


@pytest.mark.parametrize(("error", "message"), CASES, ids=lambda value: type(value).__name__)
def test_a_pickled_copy_says_the_same(error: TidegateError, message: str) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is type(error)
    assert str(copy) == message
    assert vars(copy) == vars(error)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    tree = str(errors.__doc__).partition("::")[2]
    for name in errors.__all__:
        kind = getattr(errors, name)
        if not issubclass(kind, TidegateError):
            continue
        line = next(line for line in tree.splitlines() if line.split("──")[-1].split()[:1] == [name])
        depth = 0 if kind is TidegateError else (line.index("──") - 5) // 4 + 1
        assert depth == len(kind.__mro__[: kind.__mro__.index(TidegateError)]), name


def test_the_branches() -> None:
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(SchemaOutdated, DatabaseError)
    assert issubclass(LimitOwned, Conflict)
    assert not issubclass(NotFound, ValueError)


def test_a_path_is_written_as_people_write_it() -> None:
    assert ManifestProblem(("spec", "conditions", 0, "type"), "is required").field == "spec.conditions[0].type"
