"""Settings of the operator: what is refused before anything is touched, in words that say what to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import ConfigurationError, InvalidInput, TidegateError
from tidegate_operator.config import Config, read_names, read_patterns
from tidegate_operator.databases import from_file
from tidegate_operator.reconcile.patterns import KeyPatterns

URL = "postgresql://u:hunter2@h/d"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({}, "--database-url-file"),
        ({"database_url": URL, "database_url_file": Path("f")}, "once"),
        ({"database_url": URL, "namespaces": ("a",)}, "--cluster-id"),
        ({"database_url": URL, "cluster_id": " x"}, "--cluster-id"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, object], word: str) -> None:
    with pytest.raises(TidegateError, match=word):
        Config(**settings)  # type: ignore[arg-type]


def test_namespaces_come_from_flags_and_from_a_variable() -> None:
    assert read_names(["a b", "c,d", "a", ""]) == ("a", "b", "c", "d")


@pytest.mark.parametrize("text", ["{", "[]", '{"a": "b"}', '{"a": [1]}'])
def test_key_patterns_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidInput, match="--key-patterns"):
        read_patterns(text)


@pytest.mark.parametrize(
    ("entries", "namespace", "key", "allowed"),
    [
        ({}, "team-a", "anything", True),
        ({"team-a": ["team-a-*"]}, "team-a", "team-a-x", True),
        ({"team-a": ["team-a-*"]}, "team-a", "team-b-x", False),
        ({"team-a": ["team-a-*"]}, "team-b", "team-b-x", False),
        ({"team-a": ["team-a-*"], "*": ["*"]}, "team-b", "team-a-x", True),
        ({"*": ["{namespace}/*"]}, "team-b", "team-b/x", True),
        ({"*": ["{namespace}/*"]}, "team-b", "team-a/x", False),
        ({"team-a": [], "*": ["*"]}, "team-a", "x", False),
        ({"team-a": ["vendor-[xy]"]}, "team-a", "vendor-y", True),
        ({"team-a": ["VENDOR"]}, "team-a", "vendor", False),
    ],
)
def test_key_patterns(entries: dict[str, list[str]], namespace: str, key: str, allowed: bool) -> None:
    patterns = KeyPatterns(entries)
    assert patterns.allows(namespace, key) == allowed
    if not allowed:
        assert key in patterns.explain(namespace, key)
        assert namespace in patterns.explain(namespace, key)


def test_the_url_is_read_again_each_time(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    source = from_file(file)
    assert source() == URL
    file.write_text(f"{URL}2")
    assert source() == f"{URL}2"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"mysql://h/d", b"postgresql://u:hun/ter2@h:d/x"])
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "url"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        from_file(file)()
    assert "ter2" not in str(refused.value)
