from typing import Any

import pytest

from tidegate.cli.yaml_documents import MAX_NODES, Document, UnreadableDocumentError, read_documents


def one(text: str) -> Document:
    (document,) = read_documents(text)
    return document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # what kubectl makes of a plain scalar, which is YAML 1.1
        ("Off", False),
        ("yes", True),
        ("n", False),
        ("TRUE", True),
        ("oN", "oN"),
        ("'Off'", "Off"),
        ("010", 8),
        ("0x1F", 31),
        ("4_000", 4000),
        ("-7", -7),
        ("089", None),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("~", None),
        ("null", None),
        ('"\\x41"', "A"),
        ("|-\n  two\n  lines", "two\nlines"),
    ],
)
def test_scalars_are_read_as_kubectl_reads_them(text: str, value: object) -> None:
    if text == "089":
        with pytest.raises(UnreadableDocumentError, match="is not a number"):
            one(f"a: {text}")
        return
    read = one(f"a: {text}\n").value["a"]
    assert (type(read), read) == (type(value), value)


def test_the_second_document_is_read_like_the_first() -> None:
    values = [document.value for document in read_documents("a: Off\n---\na: Off\n")]
    assert values == [{"a": False}, {"a": False}]


def test_every_key_and_element_knows_its_line() -> None:
    document = one("# comment\n\na: 1\nb:\n  - x\n  - c: {d: 1,\n       e: 2}\n")
    assert document.line == 3
    lines = {path: document.line_of(path) for path in [("a",), ("b",), ("b", 0), ("b", 1), ("b", 1, "c", "e")]}
    assert lines == {("a",): 3, ("b",): 4, ("b", 0): 5, ("b", 1): 6, ("b", 1, "c", "e"): 7}


def test_a_missing_key_has_the_line_of_what_is_around_it() -> None:
    document = one("spec:\n  rate:\n    window: 1m\n")
    assert document.line_of(("spec", "rate", "maxStarts")) == 2
    assert document.line_of(("metadata", "name")) == 1


def test_empty_documents_are_left_out_and_lines_go_on_counting() -> None:
    documents = list(read_documents("---\n---\n# nothing\n---\na: 1\n---\n"))
    assert [(each.line, each.value) for each in documents] == [(5, {"a": 1})]
    assert list(read_documents("")) == []


def test_aliases_and_merges() -> None:
    document = one("x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\nz: {<<: [*x, {c: 4, a: 9}]}\n")
    assert document.value == {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}, "z": {"a": 1, "b": 2, "c": 4}}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [", 2, "not YAML"),
        ("a: 1\nb: c: d\n", 2, "mapping values are not allowed here"),
        ("a: 1\n\tb: 1\n", 2, "not YAML"),
        ("a: 1\nb: '\x01'\n", 2, "control character"),
        ("a: 1\nb: *unknown\n", 2, "undefined alias"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' stands twice"),
        ("a:\n  ? [x]\n  : 1\n", 2, "a key must be a plain text"),
        ("a: 1\nb: !!python/object/apply:os.system [x]\n", 2, "has no place in a manifest"),
        ("a: !!binary aGVsbG8=\n", 1, "has no place in a manifest"),
        ("a: &a\n  - *a\n", 1, "nested deeper"),
        ("a: " + "[" * 1000, 1, "nested deeper"),
        ("a:\n  <<: 1\n", 2, "takes a mapping"),
        ("a: !!int many\n", 1, "is not a number"),
        ("a: 1" + "0" * 5000, 1, "is not a number"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(UnreadableDocumentError, match=words) as caught:
        list(read_documents(text))
    assert caught.value.line == line


def test_a_few_lines_cannot_grow_into_gigabytes() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(UnreadableDocumentError, match=f"more than {MAX_NODES} values"):
        list(read_documents("\n".join(lines)))


def test_the_documents_before_a_broken_one_are_read() -> None:
    read: list[Any] = []
    with pytest.raises(UnreadableDocumentError) as caught:
        read.extend(document.value for document in read_documents("a: 1\n---\nb: [\n"))
    assert caught.value.line == 4
    assert read == [{"a": 1}]
