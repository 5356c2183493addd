"""Kubernetes, etcd and helm from Go modules: what a machine without a container engine runs as processes.

About six minutes on two cores, once; Go keeps what it compiled, and a stamp says that the programs are those of today.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.cluster.local.places import ETCD, HELM, HOME, KUBERNETES, PROGRAMS

GO: Final = (1, 24)
"""Oldest Go that compiles this Kubernetes."""

COMMANDS: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)

_STAGING: Final = re.compile(r"^\s*(k8s\.io/\S+) => \./staging/", re.MULTILINE)
_VERSION: Final = "k8s.io/component-base/version"


def build() -> None:
    """Build whatever is not there yet; say how long it takes before it does."""
    stamp = PROGRAMS / "stamp"
    wanted = f"kubernetes {KUBERNETES}, etcd {ETCD}, helm {HELM}\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    _check_go()
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    print(f"building {wanted.strip()} from Go modules into {PROGRAMS}: about six minutes, once", flush=True)
    _kubernetes()
    _module("etcd", {"go.etcd.io/etcd/server/v3": f"v{ETCD}"})
    _compile("etcd", ["go.etcd.io/etcd/server/v3"], output=PROGRAMS / "etcd")
    _module("helm", {"helm.sh/helm/v4": f"v{HELM}"})
    _compile("helm", ["helm.sh/helm/v4/cmd/helm"], output=PROGRAMS / "helm")
    stamp.write_text(wanted)


def _check_go() -> None:
    if shutil.which("go") is None:
        raise SystemExit("go is not on the PATH: install Go, or Docker and kind, or name a cluster by KUBECONFIG")
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found and (int(found[1]), int(found[2])) < GO:
        raise SystemExit(f"{said} is too old to build Kubernetes {KUBERNETES}: install Go {GO[0]}.{GO[1]} or later")


def _kubernetes() -> None:
    """Kubernetes as a module requires its own libraries at no version: each is replaced by its published twin."""
    version = f"v{KUBERNETES}"
    _module("kubernetes", {"k8s.io/kubernetes": version})
    asked = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{version}"]
    found = json.loads(subprocess.run(asked, cwd=_folder("kubernetes"), capture_output=True, check=True).stdout)
    twins = _STAGING.findall(Path(found["GoMod"]).read_text())
    libraries = f"v0.{KUBERNETES.removeprefix('1.')}"
    _module("kubernetes", {"k8s.io/kubernetes": version}, dict.fromkeys(twins, libraries))
    minor = KUBERNETES.split(".")[1]
    said = {"gitVersion": version, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
    flags = " ".join(f"-X {_VERSION}.{name}={value}" for name, value in said.items())
    packages = [f"k8s.io/kubernetes/cmd/{command}" for command in COMMANDS]
    _compile("kubernetes", packages, output=PROGRAMS, flags=flags)


def _folder(name: str) -> Path:
    return HOME / "modules" / name


def _module(name: str, requires: Mapping[str, str], replaces: Mapping[str, str] | None = None) -> None:
    """Write a module that requires just this; Go adds what that needs, with its checksums, as it builds."""
    lines = [f"module tidegate.dev/cluster/{name}", f"go {GO[0]}.{GO[1]}.0"]
    lines += [f"require {path} {version}" for path, version in requires.items()]
    lines += [f"replace {path} => {path} {version}" for path, version in (replaces or {}).items()]
    _folder(name).mkdir(parents=True, exist_ok=True)
    (_folder(name) / "go.mod").write_text("\n".join(lines) + "\n")


def _compile(name: str, packages: list[str], *, output: Path, flags: str = "") -> None:
    command = ["go", "build", "-mod=mod", "-trimpath", "-ldflags", f"-s -w {flags}".strip()]
    target = f"{output}/" if output == PROGRAMS else str(output)
    subprocess.run(
        [*command, "-o", target, *packages], cwd=_folder(name), env={**os.environ, "CGO_ENABLED": "0"}, check=True
    )
