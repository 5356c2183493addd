"""The arguments of an actor: from a call to a payload, and from a payload to keyword arguments.

A payload is one JSON object, argument name to value. It holds what the caller passed and nothing else: an argument
left out takes the default that the function has *when the job runs*, also in jobs that waited through a release.
"""

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import isfinite
from typing import Any, Final, NoReturn, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypedDict

from tidegate.errors import ConfigurationError, InvalidPayload
from tidegate.model.payloads import serialise_payload

_SHOWN_PROBLEMS: Final = 5
_REFUSED_KINDS: Final[dict[Any, str]] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; drop the '/'",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; take one argument that is a list instead",
    inspect.Parameter.VAR_KEYWORD: "takes any name; take one argument that is a dict instead",
}


class Arguments:
    """What one actor takes, by pydantic's reading of its signature.

    Args:
        function: the actor's function.
        actor: the actor's name, for messages.

    Raises:
        ConfigurationError: the function has ``*args``, ``**kwargs`` or positional-only arguments: a job names each one.
    """

    def __init__(self, function: Callable[..., Any], actor: str) -> None:
        self._function = function
        self._actor = actor
        self._parameters = inspect.signature(function).parameters
        for parameter in self._parameters.values():
            if problem := _REFUSED_KINDS.get(parameter.kind):
                raise ConfigurationError(
                    f"argument {parameter} of actor {actor!r} {problem}: a job's arguments are stored by name"
                )
        self._names = tuple(self._parameters)

    @cached_property
    def adapter(self) -> TypeAdapter[dict[str, Any]]:
        """Pydantic's view of the arguments, built when first needed so that annotations may name what comes later.

        Raises:
            ConfigurationError: an annotation cannot be resolved, or pydantic has no reading of it.
        """
        try:
            hints = typing.get_type_hints(self._function, include_extras=True)
            taken: dict[str, Any] = {}
            for name, parameter in self._parameters.items():
                hint = hints.get(name, Any)
                taken[name] = hint if parameter.default is inspect.Parameter.empty else NotRequired[hint]
            # One field an argument, whatever its name: a model would forbid names such as `_id` or `copy`.
            fields = TypedDict("arguments", taken)  # type: ignore[misc]  # known at run time only
            configured: Any = with_config(ConfigDict(extra="forbid", title=self._actor))(fields)
            return TypeAdapter(configured)
        except (NameError, TypeError, PydanticUserError) as error:
            raise ConfigurationError(
                f"the annotations of actor {self._actor!r} cannot be used: {_first_line(error)}. "
                "Annotate with types that pydantic can validate, defined at module level"
            ) from error

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object], max_bytes: int) -> str:
        """Check a call against the signature and return its payload as JSON text.

        Raises:
            InvalidPayload: an argument is missing, unknown or of a wrong type, or JSON or the size bound forbids it.
        """
        named = self._by_name(args, kwargs)
        try:
            checked = self.adapter.validate_python(named)
        except ValidationError as error:
            self._refuse(error)
        try:
            plain = self.adapter.dump_python(checked, mode="json", by_alias=True, round_trip=True, warnings=False)
        except (PydanticSerializationError, ValueError, TypeError, RecursionError):
            # The error quotes the value; and what pydantic cannot write, the walk below names by its path.
            plain = checked
        try:
            text = serialise_payload(plain, max_bytes)
        except InvalidPayload as error:
            raise InvalidPayload(error.field.removeprefix("$."), error.rule) from None
        if "null" in text:
            # pydantic writes NaN and Infinity as null where a value has no declared type.
            self._refuse_non_finite(checked)
        try:
            self.adapter.validate_json(text)
        except ValidationError as error:
            field, _ = _first_problem(error)
            raise InvalidPayload(
                field, f"of actor {self._actor!r} is written as JSON that its own type refuses; use another type"
            ) from None
        return text

    def bind(self, payload: str | bytes | Mapping[str, object]) -> dict[str, Any]:
        """Return the keyword arguments of a run from a stored payload, as JSON text or decoded.

        Raises:
            InvalidPayload: the payload does not fit the signature (any more).
        """
        try:
            return self.adapter.validate_json(payload if isinstance(payload, str | bytes) else to_json(payload))
        except ValidationError as error:
            self._refuse(error)

    def _by_name(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Mapping[str, object]:
        if not args:
            return kwargs
        if len(args) > len(self._names):
            raise InvalidPayload("arguments", f"are {len(args)}, and actor {self._actor!r} takes {self._takes()}")
        named = dict(zip(self._names, args, strict=False))
        if doubled := named.keys() & kwargs.keys():
            raise InvalidPayload(min(doubled), f"of actor {self._actor!r} is given twice, by position and by name")
        return {**named, **kwargs}

    def _refuse(self, error: ValidationError) -> NoReturn:
        problems = [self._explained(problem) for problem in error.errors(include_input=False, include_url=False)]
        (field, rule), *others = problems
        shown = "".join(f"; {other} {why}" for other, why in others[: _SHOWN_PROBLEMS - 1])
        hidden = len(others) - _SHOWN_PROBLEMS + 1
        # pydantic's error prints the values: cut it off, so that no log shows them.
        raise InvalidPayload(field, rule + shown + (f"; and {hidden} more" if hidden > 0 else "")) from None

    def _explained(self, problem: Any) -> tuple[str, str]:
        field = _path(problem["loc"])
        if problem["type"] == "missing":
            return field, f"is missing: actor {self._actor!r} needs it"
        if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
            return field, f"is no argument of actor {self._actor!r}, which takes {self._takes()}"
        # This one message of pydantic's quotes the value.
        tagged = problem["type"] == "union_tag_invalid"
        message = "Input tag is none of the expected ones" if tagged else problem["msg"]
        return field, f"does not fit actor {self._actor!r}: {message}"

    def _takes(self) -> str:
        return ", ".join(self._names) or "no arguments"

    def _refuse_non_finite(self, checked: dict[str, Any]) -> None:
        for path, value in _floats(self.adapter.dump_python(checked, warnings=False), ()):
            if not isfinite(value):
                rule = "is NaN or infinite, which JSON cannot hold; send None or text instead"
                raise InvalidPayload(_path(path), rule)


def _floats(value: object, path: tuple[str | int, ...]) -> Iterable[tuple[tuple[str | int, ...], float]]:
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _floats(item, (*path, str(key)))
    elif isinstance(value, list | tuple | set | frozenset):
        for index, item in enumerate(value):
            yield from _floats(item, (*path, index))


def _path(location: tuple[str | int, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return text.removeprefix(".") or "payload"


def _first_problem(error: ValidationError) -> tuple[str, str]:
    problem = error.errors(include_input=False, include_url=False)[0]
    return _path(problem["loc"]), problem["type"]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
