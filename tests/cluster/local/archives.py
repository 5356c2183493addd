"""Images made of files alone, as archives that containerd and buildah read: no engine is needed to make one."""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.cluster.local.places import HOME, PROGRAMS
from tests.cluster.local.processes import environment, run

PAUSE: Final = "localhost/tidegate-pause:1"
"""The image whose one process holds a pod's namespaces."""

BASE: Final = "localhost/tidegate-base:bookworm"
"""Debian with its Python, for machines that can pull no image."""

PACKAGES: Final = "python3,python3-venv,ca-certificates"

WAITING: Final = """\
package main

import (
	"os"
	"os/signal"
	"syscall"
)

// Holds a pod's namespaces: waits until it is told to end. What dies meanwhile is reaped by the kernel.
func main() {
	signal.Ignore(syscall.SIGCHLD)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	<-told
}
"""


def pause_archive() -> Path:
    """The archive of the pause image, made when it is missing."""
    archive = HOME / "pause.tar"
    if not archive.exists():
        folder = HOME / "modules" / "pause"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "go.mod").write_text("module tidegate.dev/cluster/pause\n\ngo 1.24\n")
        (folder / "main.go").write_text(WAITING)
        program = PROGRAMS / "pause"
        build = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(program), "."]
        subprocess.run(build, cwd=folder, env={**environment(), "CGO_ENABLED": "0"}, check=True)
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as files:
            files.add(program, arcname="pause", filter=_by_root)
        _write(archive, PAUSE, layer.getvalue(), ["/pause"])
    return archive


def base_archive() -> Path:
    """The archive of the base image, made when it is missing: under a minute by debootstrap, as root."""
    archive = HOME / "base.tar"
    if not archive.exists():
        root = HOME / "base"
        print(f"making {BASE} by debootstrap: under a minute, once", flush=True)
        run(["rm", "-rf", root])
        run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root])
        for rest in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
            run(["rm", "-rf", root / rest])
        layer = HOME / "base.layer"
        # tar keeps owners, links and modes of a whole system as they are
        run(["tar", "--directory", root, "--numeric-owner", "--sort=name", "--create", "--file", layer, "."])
        _write(archive, BASE, layer.read_bytes(), ["python3"])
        layer.unlink()
        run(["rm", "-rf", root])
    return archive


def _by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755
    return entry


def _write(archive: Path, name: str, layer: bytes, command: list[str]) -> None:
    """Write an archive of one layer, in the form of ``docker save``; it is there whole or not at all."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
            # what builds on the image counts layers by this list
            "history": [{"created_by": "tests.cluster.local"}],
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as whole:
        for entry, content in (("config.json", config), ("layer.tar", layer), ("manifest.json", manifest)):
            about = tarfile.TarInfo(entry)
            about.size = len(content)
            whole.addfile(about, io.BytesIO(content))
    partial.rename(archive)
