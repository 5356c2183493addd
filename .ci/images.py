"""The operator's and the worker's image, by docker, podman or buildah, whichever is there: what `make images` runs."""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

IMAGES = {
    "operator": ("operator/Dockerfile", "."),
    "worker": ("worker/Dockerfile", "."),
    # the example of an app in an image of its own, from the worker's; built when it is asked for
    "greetings": ("examples/images/from/Dockerfile", "examples/images"),
}
PRODUCT = ("operator", "worker")

CERTIFICATES = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))


def name_of(image: str) -> str:
    """Return the image's name with this release's version, as in ``localhost/tidegate-worker:0.1.0``."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return f"localhost/tidegate-{image}:{version}"


def engine() -> list[str]:
    """Return the command that builds images here, up to its verb."""
    for candidate in ("docker", "podman"):
        if (
            shutil.which(candidate)
            and subprocess.run([candidate, "info"], capture_output=True, check=False).returncode == 0
        ):
            return [candidate]
    if shutil.which("buildah"):
        return ["buildah"]
    raise SystemExit("needs docker (running), podman or buildah to build images: install one of them")


def build(command: list[str], image: str, base: str | None) -> None:
    """Build one image from this work tree."""
    file, context = IMAGES[image]
    build = [*command, "build", "--file", file, "--tag", name_of(image)]
    if base and image in PRODUCT:
        build += ["--build-arg", f"BASE={base}"]
    if CERTIFICATES.exists():
        build += ["--secret", f"id=certificates,src={CERTIFICATES}"]
    if command == ["buildah"]:
        # without a daemon's rights over namespaces, as in a container
        build += ["--isolation", "chroot"]
    subprocess.run([*build, context], cwd=ROOT, check=True)


def save(command: list[str], image: str, folder: Path) -> None:
    """Write the image to an archive that `docker load`, `kind load` and `ctr images import` take."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{image}.tar"
    archive.unlink(missing_ok=True)
    if command == ["buildah"]:
        target = f"docker-archive:{archive}:{name_of(image)}"
        subprocess.run([*command, "push", "--quiet", name_of(image), target], check=True)
    else:
        subprocess.run([*command, "save", "--output", archive, name_of(image)], check=True)


def load_base(command: list[str], archive: Path) -> None:
    """Make a base image from an archive known to the engine."""
    if command == ["buildah"]:
        subprocess.run([*command, "pull", "--quiet", f"docker-archive:{archive}"], check=True)
    else:
        subprocess.run([*command, "load", "--input", archive], check=True)


def main() -> int:
    """Build what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "images", nargs="*", choices=[*IMAGES, []], metavar="IMAGE", help=f"default: {', '.join(PRODUCT)}"
    )
    parser.add_argument("--base", help="base image; default: the one that the Dockerfiles name")
    parser.add_argument("--base-archive", type=Path, help="archive to take the base image from, instead of a registry")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write an archive of each image there too")
    chosen = parser.parse_args()
    # buildah as root in a container has no overlay to stack layers with
    os.environ.setdefault("STORAGE_DRIVER", "vfs")
    command = engine()
    if chosen.base_archive:
        load_base(command, chosen.base_archive)
    for image in chosen.images or PRODUCT:
        build(command, image, chosen.base)
        if chosen.save:
            save(command, image, chosen.save)
        print(f"built {name_of(image)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
