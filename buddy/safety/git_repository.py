"""Reading of a repository's files without running git: its index, pipes in place of files, and pointers to
places outside."""

from __future__ import annotations

import mmap
import os
import re
import stat
import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from buddy.agent.lazy_regex import pattern
from buddy.safety.paths import Boundary, is_beneath
from buddy.safety.protected import ProtectedPlaces, secret_reason
from buddy.safety.sanitise import visible

_HEAD = pattern(r"ref: refs/[^\0\n]+\n*|[0-9a-f]{40}\s*|[0-9a-f]{64}\s*")
IN_FOLDERS = (".gitignore", ".gitattributes", ".mailmap", ".gitmodules")
IN_EVERY_FOLDER = frozenset({".gitignore", ".gitattributes"})
IN_GIT_FOLDER = (
    *("config", "config.worktree", "index", "HEAD", "commondir", "packed-refs", "shallow", "logs/HEAD"),
    *("info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout", "objects/info/alternates"),
)

_EXCLUDED = ".git/info/exclude"
"""Ignore rules of one machine; search programs read this file in every repository they enter."""

MAX_ENTRIES = 10_000
_POINTER = b"gitdir: "
_MAX_POINTER_BYTES = 8192
"""Twice the length of the longest path."""


def git_folders(top: str) -> tuple[str, ...]:
    """Return the folders where git keeps a repository: the one of this working tree and, in a worktree, the
    one all working trees of the repository share. Runs nothing and never waits."""
    own = os.path.join(top, ".git")
    if not os.path.isdir(own):
        text = read_regular(own, _MAX_POINTER_BYTES)
        if not text.startswith(_POINTER):
            return (own,)
        own = _read_pointer(top, text.removeprefix(_POINTER))
    return (own, *shared_folder(own))


def is_git_folder(path: str) -> bool:
    """Tell whether git would accept a folder as a repository. Git ignores any other folder, whatever its
    name, and looks further up."""
    head = os.path.join(path, "HEAD")
    try:
        is_head = os.readlink(head).startswith("refs/")
    except OSError:
        is_head = _HEAD().fullmatch(os.fsdecode(read_regular(head, _MAX_POINTER_BYTES))) is not None
    shared = (*shared_folder(path), path)[0]
    return is_head and all(os.path.isdir(os.path.join(shared, name)) for name in ("objects", "refs"))


def find_git_folders(cwd: str) -> tuple[tuple[str, str], ...]:
    """Return the repositories git may find for a folder, each as its working tree ("" for a bare one) and its
    data. The last one is the one git uses; git rejects the others, although they look like repositories."""
    found: list[tuple[str, str]] = []
    folder = cwd
    while True:
        candidate = os.path.join(folder, ".git")
        if os.path.isdir(candidate):
            found.append((folder, candidate))
            if is_git_folder(candidate):
                return tuple(found)
        elif os.path.isfile(candidate):  # one that leads nowhere ends git's search
            return (*found, (folder, git_folders(folder)[0]))
        if os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects")):
            return (*found, ("", folder))
        parent = os.path.dirname(folder)
        if parent == folder:
            return tuple(found)
        folder = parent


def repository_around(cwd: str) -> tuple[str, str]:
    """Return the working tree and the git folder that git takes for a folder, ("", "") outside of
    repositories."""
    found = find_git_folders(cwd)
    if not found or (found[-1][0] and os.path.isdir(found[-1][1]) and not is_git_folder(found[-1][1])):
        return "", ""
    return found[-1]


def shared_folder(git_dir: str) -> tuple[str, ...]:
    """Return the folder whose configuration and hooks hold for this one of git's too, () when it is its
    own."""
    text = read_regular(os.path.join(git_dir, "commondir"), _MAX_POINTER_BYTES)
    return (_read_pointer(git_dir, text),) if text else ()


def _read_pointer(folder: str, text: bytes) -> str:
    """Return the folder a file names, to the letter as git reads it: line ends behind the name are none of
    it, blanks and bytes that are no text are, and the name ends with the first NUL."""
    name = os.fsdecode(text.rstrip(b"\r\n").partition(b"\0")[0])
    named = os.path.join(folder, name)
    plain = os.path.normpath(named)
    real = os.path.realpath(named)  # behind a link, ".." leads to where git goes
    return plain if os.path.realpath(plain) == real else real


def files_that_wait(cwd: str, work_tree: str, git_dir: str) -> tuple[str, ...]:
    """Return the pipes, sockets and devices among the files git reads for a command in `cwd`; git would wait
    for them."""
    return tuple(path for path in _read_by_git(cwd, work_tree, git_dir) if _waits(path))


def _read_by_git(cwd: str, work_tree: str, git_dir: str) -> Iterator[str]:
    for name in IN_GIT_FOLDER:
        yield os.path.join(git_dir, name)
    folder: str = cwd
    while True:
        for name in IN_FOLDERS:
            yield os.path.join(folder, name)
        above = os.path.dirname(folder)
        if folder in (work_tree, above):
            return
        folder = above


def ignore_files_that_wait(
    cwd: str, roots: Sequence[str], names: frozenset[str], max_entries: int = MAX_ENTRIES
) -> Iterator[str]:
    """Find pipes, sockets and devices with one of these names in the folders above `cwd` and beneath the
    roots, where search programs and git would read such files and wait. Ends after `max_entries`."""
    return filter(_waits, _ignore_files(cwd, roots, names, max_entries))


def odd_ignore_files(
    cwd: str, roots: Sequence[str], names: frozenset[str], max_entries: int = MAX_ENTRIES
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ignore files that block a reader, and those that are links: search programs follow links,
    and print lines they can't parse."""
    found = tuple(_ignore_files(cwd, roots, names, max_entries))
    return tuple(filter(_waits, found)), tuple(filter(os.path.islink, found))


def _ignore_files(cwd: str, roots: Sequence[str], names: frozenset[str], max_entries: int) -> Iterator[str]:
    folder = cwd
    while True:
        yield from (os.path.join(folder, name) for name in (*sorted(names), _EXCLUDED))
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    pending, seen = [os.path.join(cwd, root) for root in roots], 0
    while pending and seen < max_entries:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.name in names:
                        yield entry.path
                    elif entry.name == ".git":
                        yield os.path.join(os.path.dirname(entry.path), _EXCLUDED)
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue  # an unreadable folder is not searched either


def _waits(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read_regular(path: str, max_bytes: int) -> bytes:
    """Read the beginning of a regular file without blocking; b"" for anything else."""
    return read_if_regular(path, max_bytes) or b""


def read_if_regular(path: str, max_bytes: int) -> bytes | None:
    """Read the beginning of a regular file without blocking; None for anything else or on an error."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


MAX_INDEX_BYTES = 50_000_000
_ENTRY_HEAD = 62
"""Bytes of an entry before its name: ten numbers (the seventh is the mode), a hash, 16 bits of flags."""
_NAME_LENGTH = 0xFFF
"""The bits of the flags that tell how long the name is; all of them: so long or longer."""
_SUBMODULE = 0o160000
_PLAIN_VERSIONS = (b"\0\0\0\2", b"\0\0\0\3")
"""Versions in which every name stands in full."""

_SPARSE = b"sdir\0\0\0\0"
"""Marks a sparse index, in which a folder may stand for all files beneath it."""

_COMPRESSED_VERSION = b"\0\0\0\4"
"""From this version on, a name omits the prefix it shares with the one before."""


def tracked_paths(root: str) -> frozenset[str] | None:
    """Absolute paths of all tracked files of the repository at `root`, None without a readable index."""
    found = _entries(read_regular(os.path.join(root, ".git", "index"), MAX_INDEX_BYTES + 1))
    return None if found is None else frozenset(os.path.join(root, os.fsdecode(name)) for _, name in found)


def indexed_paths(git_dir: str) -> tuple[str, ...] | None:
    """Return the tracked paths of a repository, relative to its working tree; none without an index, None
    when it does not tell for certain."""
    files = _index_files(git_dir)
    if not files:
        return ()
    if files != (f"{git_dir}/index",):  # in parts
        return None
    found = _entries(read_regular(f"{git_dir}/index", MAX_INDEX_BYTES + 1))
    return None if found is None else tuple(os.fsdecode(name) for _, name in found)


def may_be_tracked(git_dir: str, path: str) -> bool:
    """Tell whether a repository's index holds a path relative to the working tree; True also where there is
    no index, or one that can't be read."""
    name = os.fsencode(path)
    files = _index_files(git_dir)
    return f"{git_dir}/index" not in files or any(_may_hold(file, name) for file in files)


def submodules(git_dir: str) -> tuple[str, ...] | None:
    """Return the paths of a repository's submodules, relative to its working tree; None when its index does
    not tell for certain. Most indexes are only looked through for one number."""
    try:
        names = os.listdir(git_dir)
    except OSError:
        return ()
    # An index in parts: how they go together is not followed.
    if any(_holds_submodules(f"{git_dir}/{name}") for name in names if name.startswith("sharedindex.")):
        return None
    if not _holds_submodules(f"{git_dir}/index"):
        return ()
    found = _entries(read_regular(f"{git_dir}/index", MAX_INDEX_BYTES + 1))
    return None if found is None else tuple(os.fsdecode(name) for mode, name in found if mode == _SUBMODULE)


def tracked_by_name(git_dir: str, name: str) -> tuple[str, ...] | None:
    """Return the tracked paths that end with a file's name, relative to the working tree; None when the index
    does not tell for certain."""
    found: list[str] = []
    for file in _index_files(git_dir):
        names = _ending_with(file, name.encode())
        if names is None:
            entries = _entries(read_regular(file, MAX_INDEX_BYTES + 1))
            if entries is None:
                return None
            names = [entry for _, entry in entries]
        if _holds(file, _SPARSE):
            return None
        found.extend(one for one in map(os.fsdecode, names) if one.rpartition("/")[2] == name)
    return tuple(found)


def _index_files(git_dir: str) -> tuple[str, ...]:
    """Return the index of a repository, and its parts."""
    try:
        names = os.listdir(git_dir)
    except OSError:
        return ()
    return tuple(f"{git_dir}/{name}" for name in names if name == "index" or name.startswith("sharedindex."))


def _may_hold(index: str, name: bytes) -> bool:
    """Tell whether an index holds an entry of this name; True for an index of another kind."""
    with _map_file(index) as data:
        if data is None or data[:4] != b"DIRC" or data.find(_SPARSE) >= 0:
            return True
        if data[4:8] in _PLAIN_VERSIONS:
            at = data.find(name + b"\0")
            while at >= 0 and not _begins_entry(data, at, len(name)):
                at = data.find(name + b"\0", at + 1)
            return at >= 0
    entries = _entries(read_regular(index, MAX_INDEX_BYTES + 1))
    return entries is None or any(entry == name for _, entry in entries)


def _begins_entry(data: mmap.mmap, at: int, length: int) -> bool:
    """Tell whether flags that tell a name's length stand before it, directly or before more flags."""
    flags, more_flags = (int.from_bytes(data[at - back : at - back + 2], "big") for back in (2, 4))
    told = min(length, _NAME_LENGTH)
    return flags & _NAME_LENGTH == told or (more_flags & 0x4000 > 0 and more_flags & _NAME_LENGTH == told)


def _ending_with(index: str, ending: bytes) -> list[bytes] | None:
    """Return the names in an index that end so, found without reading every entry; None where only that
    tells. A name holds no NUL and follows its length, which below 256 begins with one."""
    found: list[bytes] = []
    with _map_file(index) as data:
        if data is None:
            return []
        if data[4:8] == _COMPRESSED_VERSION:
            return None
        end = data.find(ending + b"\0") + len(ending)
        while end >= len(ending):
            start = data.rfind(b"\0", 0, end) + 2
            if start < 14 or data[start - 1] != end - start:
                return None
            found.append(data[start:end])
            end = data.find(ending + b"\0", end) + len(ending)
    return found


def _holds_submodules(index: str) -> bool:
    """Tell whether an index holds the mode of submodules, which is the same bytes in every version."""
    return _holds(index, _SUBMODULE.to_bytes(4, "big"))


def _holds(index: str, sought: bytes) -> bool:
    with _map_file(index) as data:
        return data is not None and data.find(sought) >= 0


@contextmanager
def _map_file(index: str) -> Generator[mmap.mmap | None]:
    """Return the bytes of a file, None for a missing or empty one. Never blocks: a pipe may be in the file's
    place."""
    try:
        descriptor = os.open(index, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            data = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        yield None
        return
    with data:
        yield data


def _entries(data: bytes) -> list[tuple[int, bytes]] | None:
    """Mode and name of every entry; None where the bytes are no index, or one of another kind."""
    if len(data) > MAX_INDEX_BYTES or len(data) < 12 or data[:4] != b"DIRC":
        return None
    version, count = struct.unpack(">II", data[4:12])
    if version not in (2, 3, 4):
        return None
    found: list[tuple[int, bytes]] = []
    at, before = 12, b""
    for _ in range(count):
        if at + _ENTRY_HEAD > len(data):
            return None
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        start = at + _ENTRY_HEAD + (2 if version >= 3 and flags & 0x4000 else 0)
        kept = b""
        if version == 4:  # the name is what differs from the one before
            cut, start = _offset(data, start)
            kept = before[: max(len(before) - cut, 0)]
        end = data.find(b"\0", start)
        if end < 0:
            return None
        before = kept + data[start:end]
        if flags & _NAME_LENGTH != min(len(before), _NAME_LENGTH):
            return None  # with longer hashes everything stands elsewhere
        found.append((int.from_bytes(data[at + 24 : at + 28], "big"), before))
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
    return found


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length number and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80 and at + 1 < len(data):
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


MAX_CONTROL_ENTRIES = 20_000
_MAX_ALTERNATES_BYTES = 65_536
_MAX_DEPTH = 5
"""git follows borrowed objects five repositories far."""

_NOT_READ = frozenset({"hooks", "lfs", "annex"})
"""Folders of a repository that no reading command of git opens."""

_TWO_HEX = pattern(r"[0-9a-f]{2}")
_WORK_TREE = pattern(rb"(?mi)^\s*worktree\s*=\s*(\S.*?)\s*$")


def explain_outside_data(boundary: Boundary, work_tree: str, git_dir: str, *, trusted: bool) -> str:
    """Say where a repository's own files lead git outside, as a sentence; "" when they lead nowhere.

    A linked worktree or a submodule may have its data outside when the repository there names this folder:
    an archive can bring a pointer to somebody's repository, and can't make that repository point back.
    `trusted`: the person trusts the folder, so that borrowed objects are fine."""
    own = os.path.realpath(git_dir)
    shared = os.path.realpath((*shared_folder(git_dir), git_dir)[0])
    roots = (*boundary.trees, *((work_tree,) if is_beneath(boundary.root, work_tree) else ()))
    for folder in (own, shared):
        if any(is_beneath(folder, root) for root in roots):
            continue
        if not _points_back(work_tree, own, shared):
            return (
                f"this folder's git data lies outside it, at {visible(folder)}, in a repository that does "
                "not know this folder; start buddy there"
            )
    found = _link_outside(own, shared)
    if found or trusted:
        return found
    return _outside_objects(os.path.join(shared, "objects"), (*roots, own, shared))


def file_outside(value: str | None, work_tree: str) -> bool:
    """Tell whether a file that a repository's configuration names lies outside its working tree or is
    secret; a value that is not known counts as one."""
    if value is None or value.startswith("~"):
        return True
    if not value:
        return False
    top = os.path.realpath(work_tree)
    real = os.path.realpath(os.path.join(top, value))
    return not is_beneath(real, top) or bool(secret_reason(real, ProtectedPlaces("/nonexistent", (), (top,))))


def _points_back(work_tree: str, own: str, shared: str) -> bool:
    """Tell whether the repository itself knows the working tree: as one of its worktrees, or as a
    submodule."""
    pointer = os.path.realpath(os.path.join(work_tree, ".git"))
    if os.path.dirname(own) == os.path.join(shared, "worktrees"):
        text = read_regular(os.path.join(own, "gitdir"), _MAX_POINTER_BYTES)
        named = os.fsdecode(text.rstrip(b"\r\n"))
        return bool(named) and os.path.realpath(os.path.join(own, named)) == pointer
    found = _WORK_TREE().search(read_regular(os.path.join(own, "config"), _MAX_POINTER_BYTES))
    if own != shared or found is None:
        return False
    return os.path.realpath(os.path.join(own, os.fsdecode(found[1]))) == os.path.realpath(work_tree)


def _link_outside(own: str, shared: str) -> str:
    folders = tuple(dict.fromkeys((own, shared)))
    seen = 0
    for folder in folders:
        for entry in _control_entries(folder):
            seen += 1
            if seen > MAX_CONTROL_ENTRIES:
                return f"there is too much in {visible(folder)} to see where its links lead"
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if not any(is_beneath(real, one) for one in folders):
                    link = visible(entry.path)
                    return f"{link} is a link that leads git out of its folder, to {visible(real)}"
            elif _is_waiting_entry(entry):
                return f"{visible(entry.path)} is a pipe or a device, git would wait for it"
    return ""


def _control_entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a git folder, without loose objects and without what git does not read."""
    pending = [folder]
    while pending:
        current = pending.pop()
        keeps_objects = _keeps_objects(os.path.relpath(current, folder))
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    if current == folder and entry.name in _NOT_READ:
                        continue
                    yield entry
                    if keeps_objects and _TWO_HEX().fullmatch(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue  # what cannot be listed is not read by git either


def _keeps_objects(relative: str) -> bool:
    """Tell whether a folder inside a git folder holds loose objects: its own, or those of a submodule."""
    parts = relative.split("/")
    return relative == "objects" or (parts[0] == "modules" and parts[-1] == "objects" and "refs" not in parts)


def _is_waiting_entry(entry: os.DirEntry[str]) -> bool:
    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
        return False
    mode = entry.stat(follow_symlinks=False).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _outside_objects(objects: str, roots: tuple[str, ...], depth: int = 0) -> str:
    file = os.path.join(objects, "info", "alternates")
    text = read_regular(file, _MAX_ALTERNATES_BYTES + 1)
    if len(text) > _MAX_ALTERNATES_BYTES:
        return f"{visible(file)} is too long to see where it leads git"
    for line in re.split(r"[\r\n]+", os.fsdecode(text)):
        if not line or line.startswith("#"):
            continue
        real = os.path.realpath(os.path.join(objects, line))
        if line.startswith('"') or "\0" in line or not any(is_beneath(real, root) for root in roots):
            return f"{visible(file)} makes git read the objects of another repository: {visible(line[:200])}"
        more = _outside_objects(real, roots, depth + 1) if depth < _MAX_DEPTH else ""
        if more:
            return more
    return ""
