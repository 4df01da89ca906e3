"""The one door to a workspace's disk: everything is opened by one name in a folder that is held open.

Invariant: no system call here is given a path of more than one name, and none follows a link. A folder is reached by
opening one name after the other with `O_NOFOLLOW`, beginning at the operator's folder, and what is done to a file is
done to a name in the folder that is then open. Whoever swaps a folder for a link in between changes what the next call
opens, not what it may reach: it finds a link and is refused, or works in the folder that was moved aside. (`openat2`
with RESOLVE_BENEATH would do the same on Linux alone; this is right on macOS too.)

A file that has several names is refused: the others may be outside. Devices, sockets and pipes are never opened.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.tools.workspace.errors import (
    AlreadyThereError,
    DiskError,
    NotThereError,
    PathRefusedError,
    TooMuchError,
    WorkspaceError,
    WrongKindError,
)
from runtime.tools.workspace.paths import STAGING, Confined
from runtime.tools.workspace.port import Kind

FOLDER_MODE = 0o700
FILE_MODE = 0o600
CHUNK = 1024 * 1024

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a pipe that takes a file's place between the look and the opening must not hold the thread.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_MEANINGS: dict[int, tuple[type[WorkspaceError], str]] = {
    errno.ENOENT: (NotThereError, "is not there: list the folder to see what is"),
    errno.ENOTDIR: (WrongKindError, "leads through something that is no folder, or is none itself: name a folder"),
    errno.ELOOP: (WrongKindError, "leads through a link: links are not followed"),
    errno.EISDIR: (WrongKindError, "is a folder: name a file"),
    errno.EEXIST: (AlreadyThereError, "is there already: choose another path or allow to overwrite"),
    errno.ENOTEMPTY: (AlreadyThereError, "is not empty: delete it recursively or empty it first"),
    errno.ENAMETOOLONG: (PathRefusedError, "is too long for this disk: use shorter names"),
    errno.ENOSPC: (TooMuchError, "cannot be stored, the disk is full: delete something"),
    errno.EDQUOT: (TooMuchError, "cannot be stored, the disk's quota is used up: delete something"),
}


@contextlib.contextmanager
def told(path: Confined) -> Iterator[None]:
    """Turn what the operating system says into a `WorkspaceError` that names the path as it was given."""
    try:
        yield
    except OSError as error:
        kind, meaning = _MEANINGS.get(error.errno or 0, (DiskError, ""))
        meaning = meaning or f"could not be used: {os.strerror(error.errno or 0)}; try again or tell the operator"
        raise kind(f"{path} {meaning}") from None


@contextlib.contextmanager
def opened(base: Path, inside: Sequence[str]) -> Iterator[int]:
    """The workspace's root, held open; folders `inside` the operator's `base` are made when they are not there."""
    try:
        fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise DiskError("the folder that workspaces are kept in is missing: the operator has to make it") from None
    with _closing(fd), folder(fd, inside, create=True) as root:
        yield root


@contextlib.contextmanager
def changing(base: Path, inside: Sequence[str]) -> Iterator[int]:
    """The root, held open by one changer at a time among all threads and processes.

    The lock goes with the process that dies. What it was building is cleared away here, before it could be shown.
    """
    with _locked(base, inside) as root:
        clear_staging(root)
        try:
            yield root
        finally:
            clear_staging(root)


@contextlib.contextmanager
def _locked(base: Path, inside: Sequence[str]) -> Iterator[int]:
    """The root, locked. One that was taken away while the lock was waited for is not it: what is written there goes."""
    while True:
        with opened(base, inside) as root:
            fcntl.flock(root, fcntl.LOCK_EX)
            with opened(base, inside) as now:
                still_there = os.path.samestat(os.fstat(root), os.fstat(now))
            if still_there:
                yield root
                return


@contextlib.contextmanager
def folder(root: int, names: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """A folder below `root`, held open. Raises `OSError`; a link on the way is ENOTDIR or ELOOP."""
    fd = os.dup(root)
    try:
        for name in names:
            inner = _step(fd, name, create)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def kind_of(status: os.stat_result) -> Kind:
    """What a name stands for, by its own status (not that of what it may link to)."""
    if stat.S_ISDIR(status.st_mode):
        return Kind.FOLDER
    # A file that was deleted while it is open has no name left, which is harmless.
    return Kind.FILE if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1 else Kind.OTHER


def look(at: int, name: str) -> os.stat_result | None:
    """The status of a name in an open folder; None when there is nothing."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def read_file(at: int, name: str, path: Confined, most: int) -> bytes:
    """The bytes of the plain file `name` of an open folder. Raises `WrongKindError` and `TooMuchError`."""
    _expect_file(os.stat(name, dir_fd=at, follow_symlinks=False), path, most)
    with _closing(os.open(name, _READ, dir_fd=at)) as fd:
        # Judged again: between the look and the opening the name may have got another meaning.
        _expect_file(os.fstat(fd), path, most)
        data = _read_up_to(fd, most + 1)
    if len(data) > most:
        raise _too_large(path, len(data), most)
    return data


def put_file(root: int, at: int, name: str, data: bytes) -> None:
    """Give the open folder `at` a file of these bytes, in place of one that is there.

    The bytes are built under `STAGING` in the root, stored on the disk, and shown by one rename: whoever looks, and
    whoever comes after a crash or a power cut, finds the old content or the new. It is built in the root rather than
    beside its target so that one known place holds what a crash may leave.
    """
    create_file(root, STAGING, data)
    os.rename(STAGING, name, src_dir_fd=root, dst_dir_fd=at)
    os.fsync(at)


def create_file(at: int, name: str, data: bytes) -> None:
    """Make a file that is not there, and return once its bytes are stored."""
    with _closing(os.open(name, _CREATE, FILE_MODE, dir_fd=at)) as fd:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)


def clear_staging(root: int) -> None:
    """Remove what a change was building or taking away. In a tree of any depth two folders are open at a time."""
    status = look(root, STAGING)
    if status is None:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(STAGING, dir_fd=root)
        return
    with folder(root, (STAGING,)) as top:
        _empty(top)
    os.rmdir(STAGING, dir_fd=root)


def _empty(top: int) -> None:
    """Empty a folder: folders that lie deeper are lifted up to it first, under numbers, so nothing has to nest."""
    lifted = 0
    while names := os.listdir(top):
        for name in names:
            if not _remove_leaf(top, name):
                with folder(top, (name,)) as inner:
                    for leaf in os.listdir(inner):
                        if not _remove_leaf(inner, leaf):
                            lifted += 1
                            os.rename(leaf, f"{STAGING}-{lifted}", src_dir_fd=inner, dst_dir_fd=top)
                os.rmdir(name, dir_fd=top)


def _remove_leaf(at: int, name: str) -> bool:
    """Remove a name that is no folder; False for a folder."""
    status = os.stat(name, dir_fd=at, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return False
    os.unlink(name, dir_fd=at)
    return True


def _step(at: int, name: str, create: bool) -> int:
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=at)
    return os.open(name, _FOLDER, dir_fd=at)


def _expect_file(status: os.stat_result, path: Confined, most: int) -> None:
    kind = kind_of(status)
    if kind is Kind.FOLDER:
        raise WrongKindError(f"{path} is a folder: name a file")
    if kind is Kind.OTHER:
        raise WrongKindError(f"{path} is no plain file (a link, a file with several names, a device): name another")
    if status.st_size > most:
        raise _too_large(path, status.st_size, most)


def _read_up_to(fd: int, most: int) -> bytes:
    """Read to the end, or `most` bytes of a file that somebody makes longer meanwhile."""
    parts: list[bytes] = []
    while most > 0 and (part := os.read(fd, min(most, CHUNK))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _too_large(path: Confined, size: int, most: int) -> TooMuchError:
    return TooMuchError(f"{path} has {size} bytes: a file may have {most}; split it")


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)
