"""YAML text to plain values that remember their lines, read the way kubectl reads it.

kubectl reads YAML 1.1: a plain ``Off`` is a boolean and ``010`` is eight. The same file must mean the same here, so
this reader follows it, and it keeps what a person needs to find a mistake: the line of every key.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_DEPTH = 32
"""Levels of nesting; a manifest needs five."""

MAX_NODES = 20_000
"""Values of one document after its aliases are followed, so that a few lines cannot grow into gigabytes."""

Path = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {
    spelling: value
    for words, value in ((("y", "yes", "true", "on"), True), (("n", "no", "false", "off"), False))
    for word in words
    for spelling in (word, word.title(), word.upper())
}
"""What YAML 1.1 reads as a boolean where it stands plain; YAML 1.2, which the library follows, knows true and false."""

_TEXT_TAGS = frozenset({"str", "timestamp", "value", "merge"})


class UnreadableDocumentError(Exception):
    """A text is not YAML, or not of the kind that a manifest may be; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Document:
    """One document: its value, its first line, and the line and source text of every value in it."""

    line: int
    value: Any
    lines: dict[Path, int] = field(default_factory=dict)
    plain: dict[Path, str] = field(default_factory=dict)

    def misread(self, path: Path) -> str | None:
        """Return the plain word at `path` that YAML took for a boolean without its being true or false."""
        word = self.plain.get(path)
        return word if word in _BOOLEANS and word.lower() not in {"true", "false"} else None

    def line_of(self, path: Path) -> int:
        """Return the line of the value at `path`, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, self.line)


def read_documents(text: str) -> Iterator[Document]:
    """Yield the documents of a text in order, empty ones left out.

    Raises:
        UnreadableDocumentError: the text is not YAML; what came before it has been yielded.
    """
    yaml = YAML(typ="safe", pure=True)
    try:
        for root in yaml.compose_all(text):
            if root is None or _is_empty(root):
                continue
            yield _Reader().read(root)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise UnreadableDocumentError(line, f"not YAML: {error.problem or error.context}") from error
    except YAMLError as error:
        position = getattr(error, "position", None)
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else 1
        raise UnreadableDocumentError(line, "not YAML: it holds a control character") from error
    except RecursionError as error:
        raise UnreadableDocumentError(1, f"nested deeper than {MAX_DEPTH} levels") from error


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == f"{_TAG}null"


class _Reader:
    """Turns the nodes of one document into values."""

    def __init__(self) -> None:
        self._lines: dict[Path, int] = {}
        self._plain: dict[Path, str] = {}
        self._nodes = 0

    def read(self, root: Node) -> Document:
        value = self._value(root, ())
        return Document(_line(root), value, self._lines, self._plain)

    def _value(self, node: Node, path: Path) -> Any:
        self._nodes += 1
        if len(path) > MAX_DEPTH:
            raise UnreadableDocumentError(_line(node), f"nested deeper than {MAX_DEPTH} levels")
        if self._nodes > MAX_NODES:
            raise UnreadableDocumentError(_line(node), f"one document holds more than {MAX_NODES} values")
        if isinstance(node, ScalarNode):
            if node.style is None:
                self._plain[path] = node.value
            return _scalar(node)
        if node.tag not in {f"{_TAG}map", f"{_TAG}seq"}:
            raise UnreadableDocumentError(_line(node), f"the tag {node.tag} has no place in a manifest")
        if isinstance(node, SequenceNode):
            return [self._element(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._mapping(node, path)

    def _element(self, node: Node, path: Path) -> Any:
        self._lines[path] = _line(node)
        return self._value(node, path)

    def _mapping(self, node: Node, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged = {**self._merged(value_node, path), **merged}
                continue
            if not isinstance(key_node, ScalarNode):
                raise UnreadableDocumentError(_line(key_node), "a key must be a plain text")
            key = str(key_node.value)
            if key in values:
                raise UnreadableDocumentError(_line(key_node), f"{key!r} stands twice in one mapping")
            self._lines[(*path, key)] = _line(key_node)
            values[key] = self._value(value_node, (*path, key))
        return {**merged, **values}

    def _merged(self, node: Node, path: Path) -> dict[str, Any]:
        nodes = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for each in nodes:
            if not isinstance(each, MappingNode):
                raise UnreadableDocumentError(_line(each), "<< takes a mapping or a list of mappings")
            merged = {**self._mapping(each, path), **merged}
        return merged


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _scalar(node: ScalarNode) -> str | int | float | bool | None:
    name = str(node.tag).removeprefix(_TAG)
    text: str = node.value
    if node.style is None and text in _BOOLEANS:
        return _BOOLEANS[text]
    if name in _TEXT_TAGS:
        # JSON writes a character beyond 16 bits as two escapes; YAML alone would keep them as two halves.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if name == "null":
        return None
    try:
        if name == "int":
            return _integer(text.replace("_", ""))
        if name == "float":
            return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan").replace(".NaN", "nan"))
    except ValueError as error:
        raise UnreadableDocumentError(_line(node), f"{text[:40]!r} is not a number") from error
    raise UnreadableDocumentError(_line(node), f"the tag {node.tag} has no place in a manifest")


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return int(text, 8)
    return int(text, 0)
