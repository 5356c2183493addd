"""``module:attribute`` to the app that it names, with an error that says which half was wrong."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from tidegate.app import App
from tidegate.errors import ConfigurationError


def load_app(reference: str) -> App:
    """Import the app that ``module:attribute`` names, looking in the current directory first.

    Raises:
        ConfigurationError: the reference has another form, the module cannot be imported, or it has no such app.
    """
    module_name, colon, attribute = reference.partition(":")
    module = module_name.removesuffix(".py").lstrip("./").replace("/", ".")
    if not colon or not module or not attribute:
        raise ConfigurationError(
            f"APP must be MODULE:ATTRIBUTE, got {reference!r}; try {module or 'app'}:{attribute or 'app'}"
        )
    if module != module_name:
        raise ConfigurationError(f"APP names a module, not a file, got {reference!r}; try {module}:{attribute}")
    found: Any = _import(module_name)
    for step in attribute.split("."):
        if not hasattr(found, step):
            raise ConfigurationError(f"module {module_name!r} has no {attribute!r}; {_suggestion(module_name)}")
        found = getattr(found, step)
    if not isinstance(found, App):
        raise ConfigurationError(
            f"{reference} is of type {type(found).__name__}, not a tidegate.App; {_suggestion(module_name)}"
        )
    return found


def _import(name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"no module {error.name!r} in {folder} or on the Python path; start it in the folder of your code"
            ) from error
        raise ConfigurationError(_failure(name, error)) from error
    except (Exception, SystemExit) as error:
        raise ConfigurationError(_failure(name, error)) from error


def _failure(name: str, error: BaseException) -> str:
    """Say what the user's own code raised and where; `python -c` shows the whole traceback."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "importlib" not in each.filename]
    last = frames[-1] if frames and not isinstance(error, SyntaxError) else None
    where = f" ({last.filename}, line {last.lineno})" if last and last.filename != __file__ else ""
    reason = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    if isinstance(error, SyntaxError):
        where = f" ({error.filename}, line {error.lineno})"
    return f"importing {name!r} failed: {reason}{where}; see it whole with: python -c 'import {name}'"


def _suggestion(module_name: str) -> str:
    apps = [name for name, value in vars(sys.modules[module_name]).items() if isinstance(value, App)]
    if apps:
        return f"its apps are: {', '.join(f'{module_name}:{name}' for name in apps)}"
    return "it has no tidegate.App at its top level"
