"""Compile the hashed lock files, and tell without a network whether they are still those of pyproject.toml.

``compile`` (``make lock``) asks the package index through uv and writes the digest of its inputs on top of each lock.
``check`` (part of ``make check``) compares that digest with today's inputs. So it notices a requirement that was edited
without ``make lock``; pins edited by hand are left to pip, which checks every hash at install.
"""

import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    # what `make demo` installs: the product, its embedded server, and what an editable install needs to be built
    "requirements.lock": ("--extra", "dev-server", "--group", "build"),
    # what the operator's image installs
    "requirements-operator.lock": ("--extra", "operator", "--group", "build"),
    # what `make test` and `make check` install: all of it and every tool
    "requirements-dev.lock": ("--extra", "dev-server", "--extra", "operator", "--group", "build", "--group", "dev"),
    # what the worker's image installs: no server and no client of a cluster
    "requirements-worker.lock": ("--group", "build"),
}
MARK = "# inputs: "


def inputs_digest(name: str) -> str:
    """Digest of everything in pyproject.toml that decides what the lock called `name` pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    relevant = {
        "flags": LOCKS[name],
        "requires-python": project["project"]["requires-python"],
        "dependencies": project["project"]["dependencies"],
        "extras": project["project"]["optional-dependencies"],
        "groups": project["dependency-groups"],
    }
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()


def compile_locks(flags: list[str]) -> None:
    """Write the locks, keeping the pins they have wherever those still satisfy pyproject.toml."""
    for name, selection in LOCKS.items():
        command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
        # a lock holds names, versions and hashes alone: where packages come from is the business of whoever installs
        command += ["--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make lock"]
        # each lock holds those before it: a tool never moves a pin that the product is demonstrated with
        for earlier in list(LOCKS)[: list(LOCKS).index(name)]:
            command += ["--constraint", earlier]
        # uv is the one of the environment that make puts first on the path
        command += [*selection, *flags, "--output-file", name, "pyproject.toml"]
        subprocess.run(command, cwd=ROOT, check=True)
        path = ROOT / name
        path.write_text(f"{MARK}{inputs_digest(name)}\n{path.read_text()}")


def check_locks() -> list[str]:
    """One complaint for every lock that is missing, compiled from other inputs, or that names a place."""
    complaints = []
    for name in LOCKS:
        path = ROOT / name
        text = path.read_text() if path.exists() else ""
        if not text.startswith(MARK + inputs_digest(name)):
            complaints.append(f"{name} was not compiled from this pyproject.toml: run `make lock` and commit it")
        if "://" in text or "--index" in text or "--find-links" in text:
            complaints.append(f"{name} names a place that packages come from: compile it with `make lock`")
    return complaints


def main(arguments: list[str]) -> int:
    """Run the command named first; further arguments of ``compile`` go to uv (``--upgrade``)."""
    match arguments:
        case ["compile", *flags]:
            compile_locks(flags)
            return 0
        case ["check"]:
            complaints = check_locks()
            print("\n".join(complaints) or "locks are current")
            return 1 if complaints else 0
        case _:
            print("usage: locks.py compile [uv flags] | check", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
