"""Running a PostgreSQL server where the caller is root: Postgres refuses root, so the server gets an ordinary account.

Nothing of the machine is changed for it: no account is made and no folder above the server's own is opened to others.
Files are made without following links, since the folder they lie in belongs to the ordinary account and not to root.
"""

import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tidegate.errors import ConfigurationError

CANDIDATES = ("postgres", "nobody")
"""Accounts that a root caller's server runs under: the first that this machine has."""


@dataclass(frozen=True)
class Account:
    """An account of the operating system. ``uid`` and ``gid`` are what its processes run with, without other groups."""

    name: str
    uid: int
    gid: int

    def barrier_to(self, path: Path) -> Path | None:
        """Return the first of `path` and the folders above it that this account may not enter (or run), or None."""
        path = path.resolve()
        return next((step for step in (*reversed(path.parents), path) if not self._may_enter(step)), None)

    def _may_enter(self, path: Path) -> bool:
        try:
            found = path.stat()
        except FileNotFoundError:
            # not made yet: it will be made for this account
            return True
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def account_for(folder: Path) -> Account | None:
    """Choose whom a server with its data in `folder` runs as; None: as the caller, who is not root.

    A folder that some account owns already keeps it, whoever starts the server today.

    Raises:
        ConfigurationError: there is no account to run as.
    """
    if os.geteuid() != 0:
        return None
    accounts = {entry.pw_uid: entry for entry in pwd.getpwall()}
    owner = folder.stat().st_uid if folder.exists() else 0
    if owner != 0:
        entry = accounts.get(owner)
    else:
        entry = next((found for name in CANDIDATES for found in accounts.values() if found.pw_name == name), None)
    if entry is None:
        raise ConfigurationError(
            f"Postgres does not run as root, and {f'user {owner}, who owns {folder},' if owner else 'nobody'} is no"
            " account of this machine; start it as an ordinary user"
        )
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def make_folder(path: Path, account: Account | None) -> None:
    """Make `path`, closed to everybody but the account, with the folders above it as the caller would make them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def open_file(path: Path, account: Account | None) -> IO[str]:
    """Open a file at its end for reading and writing, made when missing, for the account and root alone."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    file = os.fdopen(descriptor, "a+", encoding="utf-8", errors="replace")
    if account is not None:
        os.fchown(descriptor, account.uid, account.gid)
    return file


def write_file(path: Path, text: str, account: Account | None) -> None:
    """Write a file for the account and root alone, in place of what was there."""
    path.unlink(missing_ok=True)
    with open_file(path, account) as file:
        file.write(text)


def copy_tree(source: Path, target: Path, account: Account) -> None:
    """Copy a folder so that the account owns every file of the copy; headers and static libraries stay behind."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a", "pkgconfig"))
    for folder, _, names in os.walk(target):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)


def process_options(account: Account | None) -> dict[str, Any]:
    """Arguments for `subprocess` that start a program as the account."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def works_in(pid: int, folder: Path) -> bool:
    """Tell whether the process `pid` lives and has `folder` as its working folder.

    A server's pid file outlives a crash, and its number may belong to another program by now. Where the operating
    system does not show working folders, every living process counts.
    """
    if not Path("/proc/self/cwd").exists():
        return is_alive(pid)
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder.resolve()
    except OSError:
        return False


def is_alive(pid: int) -> bool:
    """Tell whether any process has this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
