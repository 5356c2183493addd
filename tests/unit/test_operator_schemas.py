"""The rewriter of schemas: what it says in a structural schema, and what it refuses to say."""

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from tests.commands import environment
from tidegate.model.cel import CelRule, judged_by
from tidegate.model.durations import Seconds
from tidegate_operator.definitions import RESOURCES, definition
from tidegate_operator.schemas import NotStructural, structural_schema

ROOT = Path(__file__).resolve().parents[2]


def schema_of(annotation: Any, **options: Any) -> dict[str, Any]:
    """The schema of one field of that type."""

    class Model(BaseModel):
        """A model."""

        field: annotation = Field(description="A ``field``.", **options)

    fields: dict[str, Any] = structural_schema(Model)["properties"]
    return {key: value for key, value in fields["field"].items() if key != "description"}


class Inner(BaseModel):
    """Inner."""

    on: bool = Field(description="Whether it is on.")


@pytest.mark.parametrize(
    ("annotation", "options", "schema"),
    [
        (str, {}, {"type": "string"}),
        (Annotated[str, Field(min_length=1, pattern="^a$")], {}, {"type": "string", "minLength": 1, "pattern": "^a$"}),
        (str | None, {"default": None}, {"type": "string"}),
        (datetime | None, {"default": None}, {"type": "string", "format": "date-time"}),
        (bool, {"default": False}, {"type": "boolean", "default": False}),
        (int, {}, {"type": "integer", "format": "int64"}),
        (Annotated[int, Field(ge=0)], {}, {"type": "integer", "minimum": 0, "format": "int64"}),
        (Annotated[int, Field(le=9)], {}, {"type": "integer", "maximum": 9, "format": "int64"}),
        (Annotated[int, Field(ge=0, le=9)], {}, {"type": "integer", "minimum": 0, "maximum": 9, "format": "int32"}),
        (
            Annotated[int, Field(ge=0, le=2**31)],
            {},
            {"type": "integer", "minimum": 0, "maximum": 2**31, "format": "int64"},
        ),
        (Literal["Auto", "Off"], {"default": "Auto"}, {"type": "string", "enum": ["Auto", "Off"], "default": "Auto"}),
        (Literal["Auto"], {}, {"type": "string", "enum": ["Auto"]}),
        (list[str], {"max_length": 2}, {"type": "array", "maxItems": 2, "items": {"type": "string"}}),
        (
            Inner | None,
            {"default": None},
            {
                "type": "object",
                "required": ["on"],
                "properties": {"on": {"description": "Whether it is on.", "type": "boolean"}},
            },
        ),
    ],
)
def test_types(annotation: Any, options: dict[str, Any], schema: dict[str, Any]) -> None:
    assert schema_of(annotation, **options) == schema


def test_descriptions_are_plain_and_those_of_the_field_come_first() -> None:
    class Model(BaseModel):
        """A ``model``."""

        field: Inner = Field(description="The ``field``.")

    made = structural_schema(Model)
    assert (made["description"], made["properties"]["field"]["description"]) == ("A model.", "The field.")


def test_durations_are_text_with_a_default_that_people_write() -> None:
    made = schema_of(Seconds, default=timedelta(minutes=90))
    assert (made["type"], made["default"]) == ("string", "1h30m")


def test_rules_are_written_rule_first() -> None:
    made = schema_of(str, json_schema_extra=judged_by(CelRule("self != ''", "must not be empty", ".there")))
    (rule,) = made["x-kubernetes-validations"]
    assert list(rule.items()) == [("rule", "self != ''"), ("message", "must not be empty"), ("fieldPath", ".there")]


@pytest.mark.parametrize(
    ("annotation", "options", "problem"),
    [
        (int | str, {}, "Model.field: is one of 2 types"),
        (int | str | None, {"default": None}, "Model.field: is one of 2 types"),
        (float, {}, "Model.field: type number has no structural schema"),
        (None, {}, "Model.field: type null has no structural schema"),
        (dict[str, str], {}, "Model.field: an object without fields takes anything"),
        (Any, {}, "Model.field: type None has no structural schema"),
        (Annotated[int, Field(gt=0)], {}, "Model.field: exclusiveMinimum cannot be said in a structural schema"),
        (Annotated[int, Field(multiple_of=2)], {}, "Model.field: multipleOf cannot be said in a structural schema"),
        (list[int | str], {}, r"Model.field\[\]: is one of 2 types"),
        (tuple[int, str], {}, "Model.field: .*prefixItems.* cannot be said in a structural schema"),
    ],
)
def test_what_cannot_be_said_is_refused(annotation: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(NotStructural, match=problem):
        schema_of(annotation, **options)


def test_a_field_without_a_sentence_is_refused() -> None:
    class Model(BaseModel):
        """A model."""

        field: int

    with pytest.raises(NotStructural, match=r"Model.field: has no description"):
        structural_schema(Model)


def test_columns_name_fields_that_there_are() -> None:
    for resource in RESOURCES:
        version = definition(resource)["spec"]["versions"][0]
        paths = [column.path for column in resource.columns] + list((resource.scale or {}).values())
        for path in paths:
            schema = version["schema"]["openAPIV3Schema"]
            for step in path.split("[")[0].removeprefix(".").split("."):
                if step == "metadata":
                    break
                schema = schema["properties"][step]


def test_the_files_are_what_the_models_say() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / ".ci" / "crds.py", "check"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
