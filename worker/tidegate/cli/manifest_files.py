"""Files, directories and standard input to checked manifests, every problem with its file and line."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.cli.yaml_documents import Document, UnreadableDocumentError, read_documents
from tidegate.errors import InvalidManifest
from tidegate.model.limits import LimitPolicy
from tidegate.model.manifests import LimitManifest, parse_manifest
from tidegate.model.queues import QueueSpec

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
"""The files of a directory that are read, as kubectl does."""

STDIN = "-"
"""Stands for standard input."""


@dataclass(frozen=True)
class Placed:
    """What one document declares, and where it stands."""

    declared: LimitPolicy | QueueSpec
    place: str

    @property
    def target(self) -> tuple[str, str]:
        """The row that it decides about: ``("Limit", key)`` or ``("Queue", name)``."""
        if isinstance(self.declared, LimitPolicy):
            return "Limit", self.declared.key
        return "Queue", self.declared.name


@dataclass(frozen=True)
class Found:
    """All that was read: what the good documents declare, in order, and one line for each problem."""

    placed: list[Placed]
    problems: list[str]


def read_manifests(names: Sequence[str]) -> Found:
    """Read and check every document of every file before anybody acts on one.

    Args:
        names: files, directories (their ``*.yaml``, ``*.yml`` and ``*.json``, not deeper), and ``-``.
    """
    found = Found([], [])
    for name in names:
        for label, text in _texts(name, found.problems):
            _read_text(label, text, found)
    _refuse_duplicates(found)
    if not found.placed and not found.problems:
        found.problems.append(f"{', '.join(names)}: no document in it")
    return found


def _texts(name: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    files: list[tuple[str, Path | None]] = [("stdin", None)]
    if name != STDIN:
        files = [(str(file), file) for file in _files_of(Path(name))]
        if not files:
            problems.append(f"{name}: the directory holds no .yaml, .yml or .json file")
    for label, file in files:
        try:
            content = sys.stdin.buffer.read() if file is None else file.read_bytes()
        except OSError as error:
            problems.append(f"{label}: {error.strerror or error}")
            continue
        try:
            yield label, content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            problems.append(f"{label}:{line}: not UTF-8 text")


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix in SUFFIXES and not each.is_dir())


def _read_text(label: str, text: str, found: Found) -> None:
    try:
        for document in read_documents(text):
            _read_document(label, document, found)
    except UnreadableDocumentError as error:
        found.problems.append(f"{label}:{error.line}: {error}")


def _read_document(label: str, document: Document, found: Found) -> None:
    try:
        manifest = parse_manifest(document.value)
    except InvalidManifest as error:
        for problem in sorted(error.problems, key=lambda each: document.line_of(each.path)):
            place = f"{label}:{document.line_of(problem.path)}"
            found.problems.append(f"{place}: {problem}{_reading(document, problem.path)}")
        return
    declared = manifest.to_limit_policy() if isinstance(manifest, LimitManifest) else manifest.to_queue_spec()
    found.placed.append(Placed(declared, f"{label}:{document.line}"))


def _reading(document: Document, path: tuple[str | int, ...]) -> str:
    """Add what surprises people most: a plain word such as Off that YAML took for a boolean."""
    word = document.misread(path)
    return f", because YAML reads {word} so" if word else ""


def _refuse_duplicates(found: Found) -> None:
    first: dict[tuple[str, str], str] = {}
    for placed in found.placed:
        kind, name = placed.target
        if placed.target in first:
            found.problems.append(f"{placed.place}: {kind} {name!r} stands already at {first[placed.target]}")
        first.setdefault(placed.target, placed.place)
