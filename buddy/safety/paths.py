"""Resolution of the paths a model writes, and the check that they are inside the workspace.

`locate` follows links one component at a time, keeps the part that does not exist yet, and never raises
anything but `ToolError`. What it says is true at that instant: whoever opens the file afterwards uses
`open_beneath` or `read_regular` (buddy.safety.descriptors), which cannot be led elsewhere by a link swapped
in between.
"""

from __future__ import annotations

import errno
import os
import stat

import msgspec

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError
from buddy.safety.descriptors import open_beneath, open_parent, open_regular, read_regular, replace_beneath
from buddy.safety.protected import ProtectedPlaces, protected_reason, secret_reason
from buddy.safety.sanitise import visible

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
    outside."""

    root: str
    cwd: str
    home: str
    extra: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    main: str = ""
    trusts_repository: bool = False

    @property
    def trees(self) -> tuple[str, ...]:
        """Every folder whose programs are the project's own: the workspace, and the main tree of a
        worktree."""
        return (self.root, *self.extra, *((self.main,) if self.main else ()))


class Located(msgspec.Struct, frozen=True):
    """A path and where it leads. `path` is absolute, without "." and "..", links kept; `real` has all links
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
    """Find out where a path leads. Raises `ToolError` for anything that cannot be a path."""
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
    return Located(given, path, real, inside, _shown(boundary, path, real), protected, secret)


def is_beneath(path: str, directory: str) -> bool:
    """Tell whether a real path is a directory or lies in it: whole components, /repo-evil is not in /repo."""
    return path == directory or directory == "/" or path.startswith(directory + "/")


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
    """The absolute path with links kept and the one with links followed."""
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


def _shown(boundary: Boundary, path: str, real: str) -> str:
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
