"""Whom a cache trusts. Its entries decide what a model learns, and whoever can write one can change that.

    an entry of                                                      is
    this user, or root                                               used
    the owner of the folder that `$HEEDFUL_CACHE` names, if nobody   used: to name the folder is to trust its owner
    else can write there
    any other user                                                   prepared again: hashes that are next to an entry
                                                                     were written by the same hand, and prove nothing

Folders that Heedful creates for its cache are private. In a folder that several users can write to, each has one of
their own.
"""

import os
import stat
from pathlib import Path

_WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def root_for_this_user(root: Path) -> Path:
    """Return a folder for a cache: the given one, or one of this user's own in it if it is somebody else's to share."""
    status = _status(root)
    if status is None or this_user() is None or _owner(root) == this_user():
        return root
    return root / f"user-{this_user()}" if status.st_mode & _WRITTEN_BY_OTHERS else root


def create_private(folder: Path, root: Path) -> None:
    """Create a folder of a cache and those above it; inside one that is there already they have its permissions."""
    status = _status(root)
    mode = 0o700 if status is None else stat.S_IMODE(status.st_mode) & 0o777
    missing = []
    while _status(folder) is None and folder != folder.parent:
        missing.append(folder)
        folder = folder.parent
    for level in reversed(missing):
        level.mkdir(mode=mode if root in level.parents else 0o700, exist_ok=True)
    if not missing:
        folder.mkdir(exist_ok=True)  # raises if it is a file


def stranger_of(entry: Path, root: Path, named: bool) -> int | None:
    """Return the user whom an entry or a file of it belongs to, if that is not a user to trust; None if all are.

    `named` says that the user chose the root of the cache.
    """
    if this_user() is None:
        return None
    trusted = {this_user(), 0}
    if named and root.exists() and not any(map(_is_written_by_others, (root, entry.parent, entry))):
        trusted.add(_owner(root))
    owners = [_owner(entry), _owner(entry.resolve()), *map(_owner, entry.iterdir())]  # it may be a link to a folder
    return next((owner for owner in owners if owner not in trusted), None)


def this_user() -> int | None:
    """Return the number of the user; None on systems that have none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _owner(path: Path) -> int:
    return path.lstat().st_uid


def _is_written_by_others(folder: Path) -> bool:
    return bool(folder.stat().st_mode & _WRITTEN_BY_OTHERS)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
