"""Resolution of paths from the model, the workspace boundary, and opens that swapped links, pipes or devices
can't mislead."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.protected import ProtectedPlaces, protected_reason, secret_reason
from buddy.safety.sanitise import visible

MAX_READ_BYTES = 50_000_000
# Looked up by name: importing this must work on systems that lack them.
_DIRECTORY = (
    getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_PATH", os.O_RDONLY)
)
_LINK_IN_THE_WAY = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)
_KERNEL_FILES = pattern(r"/(?:proc|sys|dev)/(?!shm/)")


def make_private_folders(path: str) -> None:
    """Create a folder and its missing parents, each for its owner alone whatever the umask. `os.makedirs`
    gives its mode to the last of them only. Folders that exist stay as they are. Raises `OSError`."""
    try:
        _make_private_folder(path)
    except FileNotFoundError:
        parent = os.path.dirname(os.path.abspath(path))
        if parent == path:
            raise
        make_private_folders(parent)
        _make_private_folder(path)  # /proc has folders in which nothing can be made: one further try, no more


@contextmanager
def hold_file_lock(path: str, *, wait: bool = True) -> Generator[None]:
    """Hold a lock file, made with its folder where it is missing, while other programs of the same person
    wait. A file beside the one it guards, because replacing that would drop a lock held on it. Raises
    `OSError`; without `wait` that is `BlockingIOError` while another program holds it."""
    import fcntl  # here: importing must work on Windows too, which has none

    make_private_folders(os.path.dirname(path))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _make_private_folder(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def open_beneath(directory: str | int, relative: str, flags: int, mode: int = 0o600) -> int:
    """Open a file beneath a directory (real path or descriptor) without following any link on the way.

    Returns a descriptor the caller closes. Raises `ToolError` where a link (or a file in place of a folder)
    stands in the way or the name is not relative, and `OSError` for what the system says otherwise (missing,
    no permission)."""
    parent, name = _descend(directory, _components(relative))
    try:
        return _step(parent, name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, relative)
    finally:
        os.close(parent)


def open_parent(directory: str | int, relative: str) -> tuple[int, str]:
    """Return the folder of a file beneath a directory, as a descriptor the caller closes, and the file's own
    name. Raises as `open_beneath` does."""
    return _descend(directory, _components(relative))


def replace_file(path: str | os.PathLike[str], data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """Write a file atomically: readers see the old or the new content, never a part. A link in its place is
    replaced, not followed. `sync`: wait until the data is on the disk. Raises `OSError`."""
    folder, name = os.path.split(path)
    parent = os.open(folder or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC)
    try:
        _replace_in(parent, name, data, mode, sync=sync)
        if sync:
            os.fsync(parent)
    finally:
        os.close(parent)


def replace_beneath(directory: str | int, relative: str, data: bytes, mode: int) -> None:
    """Write a file whole: temporary file beside it, fsync, rename. Links on the way are refused; a link or a
    hard link in the file's place is replaced, never written through. Raises as `open_beneath` does."""
    parent, name = open_parent(directory, relative)
    try:
        _replace_in(parent, name, data, mode)
    finally:
        os.close(parent)


def open_regular(path: str) -> int:
    """Return a descriptor on a regular file for reading, never waiting: pipes, sockets, devices and the
    kernel's own files are refused with `ToolError`. Raises `OSError` for what is missing or not permitted."""
    _refuse_kernel_file(os.path.realpath(path), path)  # before opening: opening a device may already act
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ToolError(
                f"{visible(path)} is a socket or a device; only regular files are read"
            ) from error
        raise
    with on_failure(os.close, descriptor):
        _demand_regular(descriptor, path)
        _refuse_kernel_file(_name_of(descriptor), path)
    return descriptor


def read_regular(path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
    """Return the first `max_bytes` of a regular file. Raises as `open_regular` does."""
    return _read(open_regular(path), max_bytes)


def hash_regular(path: str, max_bytes: int) -> str:
    """Return the SHA-256 of a regular file as hex. Raises `ToolError` for one over `max_bytes` (a digest of
    its beginning would not change with its end); else raises as `open_regular` does."""
    found = hashlib.sha256()
    with os.fdopen(open_regular(path), "rb", buffering=0) as file:
        left = max_bytes
        while piece := file.read(1 << 20):
            left -= len(piece)
            if left < 0:
                raise ToolError(f"{visible(path)} is over {max_bytes:,} bytes")
            found.update(piece)
    return found.hexdigest()


def read_beneath(directory: str | int, relative: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
    """Return the first `max_bytes` of a regular file beneath a directory. Raises as `open_beneath` and
    `open_regular` do."""
    descriptor = open_beneath(directory, relative, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with on_failure(os.close, descriptor):
        _demand_regular(descriptor, relative)
    return _read(descriptor, max_bytes)


def _read(descriptor: int, max_bytes: int) -> bytes:
    """Read an open file and close it."""
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        pieces: list[bytes] = []
        left = max_bytes
        while piece := file.read(min(left, 1 << 20)):  # nothing when nothing is left
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


def _components(relative: str) -> list[str]:
    parts = relative.split("/")
    if "\0" in relative or any(part in {"", ".", ".."} for part in parts):
        raise ToolError(f"expected a plain relative path, found {visible(relative[:200])!r}")
    return parts


def _descend(directory: str | int, parts: list[str]) -> tuple[int, str]:
    current = os.dup(directory) if isinstance(directory, int) else os.open(directory, _DIRECTORY)
    for part in parts[:-1]:
        try:
            following = _step(current, part, _DIRECTORY, 0, "/".join(parts))
        finally:
            os.close(current)
        current = following
    return current, parts[-1]


def _step(parent: int, name: str, flags: int, mode: int, whole: str) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=parent)
    except OSError as error:
        if error.errno in _LINK_IN_THE_WAY:
            raise ToolError(
                f"{visible(name)} in {visible(whole)} is a link or not a folder; it is not followed. "
                "Name the file it leads to."
            ) from error
        raise


def _replace_in(parent: int, name: str, data: bytes, mode: int, *, sync: bool = True) -> None:
    temporary = f".buddy-{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=parent)
    with on_failure(os.unlink, temporary, dir_fd=parent):
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fchmod(file.fileno(), mode)
            if sync:
                os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)


def _refuse_kernel_file(real: str, given: str) -> None:
    """/proc/kcore calls itself a regular file, /proc/kmsg as well, and reading it waits."""
    if _KERNEL_FILES().match(real):
        raise ToolError(f"{visible(given)} is made by the kernel, not a regular file; it is not read")


def _name_of(descriptor: int) -> str:
    """Return the kernel's path of an open file; "" where it doesn't tell."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def _demand_regular(descriptor: int, path: str) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return
    kind = next((kind for test, kind in _KINDS if test(mode)), "something else")
    raise ToolError(f"{visible(path)} is {kind}; only regular files are read")


__all__ = [
    "Boundary",
    "Located",
    "in_main_tree",
    "is_beneath",
    "locate",
    "open_beneath",
    "open_parent",
    "open_regular",
    "read_regular",
    "replace_beneath",
]

MAX_PATH_BYTES = 4095
MAX_NAME_BYTES = 255
MAX_LINKS = 40
_SCHEME = pattern(r"(?i)[a-z][a-z0-9+.\-]*://|file:")
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})


class Boundary(msgspec.Struct, frozen=True):
    """Folders that count as inside: `root` and `extra`. Relative paths start at `cwd`. All of them are real
    paths (links resolved). `own`: buddy's own directories where they are not the usual ones. `main`: the main
    tree when `root` is a worktree that buddy made of it, "" otherwise; it is outside then.
    `trusts_repository`: the user trusts the folder, so that its repository may borrow git objects from
    outside. `git_settings`: files of the person's settings of git where they are not the usual ones."""

    root: str
    cwd: str
    home: str
    extra: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    main: str = ""
    trusts_repository: bool = False
    git_settings: tuple[str, ...] = ()

    @property
    def trees(self) -> tuple[str, ...]:
        """Return every folder whose programs are the project's own: the workspace, and the main tree of a
        worktree."""
        return (self.root, *self.extra, *((self.main,) if self.main else ()))


class Located(msgspec.Struct, frozen=True):
    """A path and its target. `path` is absolute, without "." and "..", links kept; `real` has all links
    followed; `inside` is decided on `real`. `shown` is for people: relative to the working directory when
    inside, with the target of a link, every odd character visible. `protected` and `secret` are reasons or
    ""."""

    given: str
    path: str
    real: str
    inside: bool
    shown: str
    protected: str
    secret: str


def locate(boundary: Boundary, given: str) -> Located:
    """Resolve a path. Raises `ToolError` for anything that cannot be a path."""
    _check(given)
    path, real = _walk(*_start(boundary, given))
    inside = is_beneath(real, boundary.root) or any(is_beneath(real, root) for root in boundary.extra)
    places = ProtectedPlaces(boundary.home, boundary.own, boundary.trees)
    judged = in_main_tree(real, boundary.root, boundary.main) or real
    protected = protected_reason(judged, places)
    secret = secret_reason(judged, places)
    if path != real:
        judged = in_main_tree(path, boundary.root, boundary.main) or path
        protected = protected or protected_reason(judged, places)
        secret = secret or secret_reason(judged, places)
    return Located(given, path, real, inside, _display(boundary, path, real), protected, secret)


def hides_its_target(boundary: Boundary, located: Located) -> bool:
    """Tell whether links take a path to a secret file, or out of the session's folders, although its words
    say neither: whoever wrote the path may not know."""
    words = os.path.normpath(os.path.join(boundary.cwd, os.path.expanduser(located.given)))
    if words == located.real:
        return False
    trees = (boundary.root, *boundary.extra)
    if not located.inside and any(os.path.realpath(folder) in trees for folder in _folders_above(words)):
        return True
    places = ProtectedPlaces(boundary.home, boundary.own, boundary.trees)
    return bool(located.secret) and not secret_reason(
        in_main_tree(words, boundary.root, boundary.main) or words, places
    )


def _folders_above(path: str) -> Iterator[str]:
    while path != (path := os.path.dirname(path)):
        yield path


def is_beneath(path: str, directory: str) -> bool:
    """Tell whether a real path is a directory or lies in it: whole components, /repo-evil is not in /repo."""
    return path == directory or directory == "/" or path.startswith(directory + "/")


def walk_tree(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk a tree from the top like `os.walk`, which until Python 3.12 fails on a tree deeper than the stack.
    Folders taken out of the first list are not entered; links are not followed."""
    pending = [top]
    while pending:
        parent = pending.pop()
        folders: list[str] = []
        names: list[str] = []
        try:
            with os.scandir(parent) as entries:
                for entry in entries:
                    (folders if _is_folder(entry) else names).append(entry.name)
        except OSError:
            continue
        yield parent, folders, names
        paths = (os.path.join(parent, name) for name in reversed(folders))
        pending.extend(path for path in paths if not os.path.islink(path))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that goes round in circles
        return False


def remove_tree(path: str, *, ignore_errors: bool = False) -> None:
    """Remove a folder with everything in it, however deep. Raises `OSError`."""
    import shutil  # here, as everywhere: 2 ms that a start need not pay

    try:
        shutil.rmtree(path, ignore_errors=ignore_errors)
    except RecursionError:  # until Python 3.13
        with suppress(OSError) if ignore_errors else nullcontext():
            _remove_deep_tree(path)


def _remove_deep_tree(path: str) -> None:
    for folder, folders, names in reversed(list(walk_tree(path))):
        links = (name for name in folders if os.path.islink(os.path.join(folder, name)))
        for name in (*names, *links):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def in_main_tree(path: str, root: str, main: str) -> str:
    """Translate a path of the worktree `root` to its main tree; "" for any other path. Worktrees lie in
    buddy's own folder, where every name is protected; the protection of a file in one follows from its place
    in the project."""
    return main + path[len(root) :] if main and is_beneath(path, root) else ""


def _check(given: str) -> None:
    if not given or given.isspace():
        raise ToolError("the path is empty; expected a file or folder name")
    if "\0" in given:
        raise ToolError("the path holds a NUL character, which no file name can")
    if _SCHEME().match(given):
        raise ToolError(f"expected a path, found an address: {visible(given[:80])}. Give the path alone.")
    try:
        size = len(given.encode())
    except UnicodeEncodeError as error:
        raise ToolError("the path holds half a character (a lone surrogate), which is not text") from error
    if size > MAX_PATH_BYTES:
        raise ToolError(f"the path is {size} bytes long; at most {MAX_PATH_BYTES} are possible")


def _start(boundary: Boundary, given: str) -> tuple[str, list[str]]:
    """Return the real path to start from and the components to follow."""
    if given == "~" or given.startswith("~/"):
        given = boundary.home + given[1:]
    base = boundary.cwd
    if given.startswith("/"):
        base = "/"
        for known in (boundary.cwd, boundary.root):
            if given.startswith(known + "/"):  # already real: nothing to look up again
                base, given = known, given[len(known) :]
                break
    return base, [part for part in given.split("/") if part and part != "."]


def _walk(base: str, parts: list[str]) -> tuple[str, str]:
    """Return the absolute path with links kept and the one with links followed."""
    path = real = base
    links = 0
    for part in parts:
        if part == "..":
            # Behind a link, ".." is the parent of where it leads, so from here on only the real path is true.
            path = real = os.path.dirname(real)
            continue
        path = _join(path, part)
        pending = [part]
        while pending:
            name = pending.pop()
            if name == "..":
                real = os.path.dirname(real)
                continue
            candidate = _join(real, name)
            target = _link_target(candidate)
            if target is None:
                real = candidate
                continue
            links += 1
            if links > MAX_LINKS:
                raise ToolError(f"too many links, or links in a circle: {visible(path)}")
            if target.startswith("/"):
                real = "/"
            pending.extend(piece for piece in reversed(target.split("/")) if piece and piece != ".")
    return path, real


def _join(directory: str, name: str) -> str:
    if len(name) > MAX_NAME_BYTES // 4 and len(os.fsencode(name)) > MAX_NAME_BYTES:
        raise ToolError(f"a name in the path is longer than {MAX_NAME_BYTES} bytes: {visible(name[:40])}…")
    joined = f"{directory}/{name}" if directory != "/" else f"/{name}"
    if len(joined) > MAX_PATH_BYTES // 4 and len(os.fsencode(joined)) > MAX_PATH_BYTES:
        raise ToolError(f"the path leads to a name of more than {MAX_PATH_BYTES} bytes")
    return joined


def _link_target(path: str) -> str | None:
    """Return a link's target, None for anything that is not a link or does not exist."""
    try:
        if not stat.S_ISLNK(os.lstat(path).st_mode):
            return None
        return os.readlink(path)
    except OSError as error:
        if error.errno in _MISSING:
            return None
        raise ToolError(f"cannot look at {visible(path)}: {error.strerror}") from error


def _display(boundary: Boundary, path: str, real: str) -> str:
    text = _short(boundary, path)
    if path != real:
        text = f"{text} → {_short(boundary, real)}"
    return visible(text)


def _short(boundary: Boundary, path: str) -> str:
    if path == boundary.cwd:
        return "."
    if path.startswith(boundary.cwd + "/"):
        return path[len(boundary.cwd) + 1 :]
    if is_beneath(path, boundary.root):
        return os.path.relpath(path, boundary.cwd)
    if path.startswith(boundary.home + "/"):
        return "~" + path[len(boundary.home) :]
    return path
