"""The project's images for the cluster: built when what they are made of has changed, and loaded into it."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.cluster.local.archives import BASE, base_archive
from tests.cluster.local.places import HOME, STATE

ROOT: Final = Path(__file__).resolve().parents[3]

ARCHIVES: Final = HOME / "images"

IMAGES: Final = ("worker", "operator", "greetings")
"""In this order: the last is made from the first."""

MADE_OF: Final = (
    "worker",
    "operator",
    "examples/images",
    ".ci/images.py",
    "requirements-*.lock",
    "pyproject.toml",
    "README.md",
    ".dockerignore",
)


def provide(load: Callable[[Path], None], *, from_registry: bool) -> None:
    """Build the images where they are not today's, and load them where the cluster has not got them.

    Args:
        load: makes the images of an archive known to the cluster.
        from_registry: whether the base image that the Dockerfiles name can be pulled; else one is made here.
    """
    digest = _digest(from_registry=from_registry)
    built, loaded = ARCHIVES / "built", STATE / "loaded"
    if not _says(built, digest):
        based = [] if from_registry else ["--base", BASE, "--base-archive", str(base_archive())]
        command = [sys.executable, str(ROOT / ".ci" / "images.py"), *IMAGES, *based, "--save", str(ARCHIVES)]
        subprocess.run(command, cwd=ROOT, check=True)
        built.write_text(digest)
    if not _says(loaded, digest):
        for archive in sorted(ARCHIVES.glob("*.tar")):
            load(archive)
        loaded.write_text(digest)


def _says(mark: Path, digest: str) -> bool:
    return mark.exists() and mark.read_text() == digest


def _digest(*, from_registry: bool) -> str:
    """Digest of every file that the images are made of."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *MADE_OF]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    whole = hashlib.sha256(str(from_registry).encode())
    for name in sorted(names):
        path = ROOT / name
        if path.is_file():
            whole.update(f"\0{name}\0".encode() + path.read_bytes())
    return whole.hexdigest()
