"""The places of a machine and workspace that a sandbox profile protects or hides.

Finding them takes a walk over the workspace's folders, so a `Surveyor` does that in a thread and caches
folders; the top of the workspace is read again for every command.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from buddy.safety.git_programs import programs_of_git
from buddy.safety.paths import Boundary
from buddy.safety.protected import (
    PROTECTED_ANYWHERE,
    PROTECTED_AT_HOME,
    PROTECTED_IN,
    SECRET_ANYWHERE,
    SECRET_AT_HOME,
    SECRET_ROOTS,
    ProtectedPlaces,
    is_plain_name,
    secret_reason,
)
from buddy.workspace.sandbox.git_data import git_data, is_bare, protected_entries
from buddy.workspace.sandbox.profile import (
    Kind,
    OpenedPlace,
    SandboxProfile,
    is_at_or_below,
    is_in_package,
    is_protected_name,
    lies_in_any,
)
from buddy.workspace.sandbox.session_records import FOLDER, is_records, output_folders, record_folders

MAX_ENTRIES = 500_000
"""Limit on the entries a survey reads; commands cannot change folders beyond it."""
MAX_SECRETS = 500
MAX_PROTECTED = 1_500
"""Limit on the places of a profile: beyond it, the folders that contain most of them are protected as a
whole. bubblewrap accepts 9,000 words."""
MAX_BESIDE = 10_000
"""Limit on the entries of a folder that are searched for further sockets."""
_OWN = ("/run", "/var/run", "/dev", "/proc")
"""Folders that are private to a command, or contain no sockets."""
CLOCK_TICK_NS = 50_000_000
"""Longer than the clock step of file system times."""
_HOME_FOLDERS = ("", ".config", ".cache", ".local/share", "snap", "Library")


class WorkspaceSurvey(msgspec.Struct, frozen=True):
    """The result of a survey: protected names below the top, repositories, secret files. `unseen` are folders
    that were not read."""

    protected: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Tell whether all protected names and repositories are known."""
        return not self.unseen


class _Folder(msgspec.Struct, frozen=True):
    """One folder's entries that matter. `sign` changes whenever an entry comes or goes; a folder that changed
    just before it was read may have changed again since, with the same sign."""

    sign: tuple[int, int, int]
    settled: bool
    entries: int
    folders: tuple[str, ...]
    protected: tuple[str, ...]
    repositories: tuple[str, ...]
    secrets: tuple[str, ...]
    records: str = ""
    """buddy's own folder in it."""


class Surveyor:
    """Surveys folders repeatedly; unchanged folders are not read again. `survey` is the result of the last
    walk, `took_s` its duration."""

    def __init__(self, roots: Sequence[str], home: str, most: int = MAX_ENTRIES) -> None:
        self._roots = tuple(roots)
        self._most = most
        self._places = ProtectedPlaces(home, (), self._roots)
        self._known: dict[str, _Folder] = {}
        self._lock = threading.Lock()
        self.survey = WorkspaceSurvey()
        self.walked_at = float("-inf")
        self.took_s = 0.0

    def look(self) -> WorkspaceSurvey:
        """Survey the folders. Blocks: call it in a thread."""
        with self._lock:
            begin = time.monotonic()
            self.survey = self._walk()
            self.walked_at = time.monotonic()
            self.took_s = self.walked_at - begin
            return self.survey

    def _walk(self) -> WorkspaceSurvey:
        before, self._known = self._known, {}
        found: list[_Folder] = []
        entries = 0
        folders = list(reversed(self._roots))
        while folders and entries <= self._most:
            path = folders.pop()
            folder = self._folder(path, before.get(path))
            if folder is None:
                continue
            self._known[path] = folder
            found.append(folder)
            folders += folder.folders
            if folder.records:
                # First in the list: read last, so that they use up no part of the limit that others need.
                folders.insert(0, os.path.join(folder.records, "worktrees"))
            entries += folder.entries
        return WorkspaceSurvey(
            tuple(path for one in found for path in one.protected),
            tuple(path for one in found for path in one.repositories),
            tuple(path for one in found for path in one.secrets),
            tuple(folders),
        )

    def _folder(self, path: str, before: _Folder | None) -> _Folder | None:
        """Return the current state of a folder without git's own folders and without following links; None
        when unreadable."""
        try:
            state = os.lstat(path)
            sign = (state.st_dev, state.st_ino, state.st_ctime_ns)
            if before is not None and before.settled and before.sign == sign:
                return before
            with os.scandir(path) as entries:
                return self._read(path, sign, list(entries))
        except OSError:
            return None

    def _read(self, path: str, sign: tuple[int, int, int], entries: Sequence[os.DirEntry[str]]) -> _Folder:
        folders: list[str] = []
        protected: list[str] = []
        repositories: list[str] = []
        secrets: list[str] = []
        names: set[str] = set()
        records = ""
        for entry in entries:
            name = entry.name.lower()
            is_folder = entry.is_dir(follow_symlinks=False)
            names.add(name)
            if name == FOLDER and is_folder:
                records = entry.path
            if name == ".git":
                repositories.append(entry.path)
            elif _is_protected(entry.path, name) and not is_in_package(entry.path):
                protected.append(entry.path)
            elif is_folder and name not in SECRET_ANYWHERE:
                folders.append(entry.path)
            odd = name in SECRET_ANYWHERE or not (is_folder or is_plain_name(entry.name))
            if odd and secret_reason(entry.path, self._places):
                secrets.append(entry.path)
        if is_bare(names):
            repositories.append(path)
        settled = time.time_ns() - sign[2] > CLOCK_TICK_NS
        if self._is_in_records(path):  # protected as a whole; only secret files matter
            protected, repositories = [], []
        return _Folder(
            sign,
            settled,
            len(entries),
            tuple(folders),
            tuple(protected),
            tuple(repositories),
            tuple(secrets),
            records,
        )

    def _is_in_records(self, path: str) -> bool:
        """Tell whether a folder lies in a worktree of the workspace, and is not itself worked in."""
        return any(
            f"/{FOLDER}/" in path[len(root) :] for root in self._roots if is_at_or_below(path, root)
        ) and not any(f"/{FOLDER}/" in root and is_at_or_below(path, root) for root in self._roots)


def _is_protected(path: str, name: str) -> bool:
    if name in PROTECTED_IN:
        return os.path.dirname(path).lower().endswith(PROTECTED_IN[name])
    return is_protected_name(name)


def _own_folders(path: str) -> Iterator[str]:
    """Yield the folders a protected path belongs to: moving one away would lift its protection."""
    if is_protected_name(os.path.basename(path).lower()):
        return  # refused by its name, wherever it is moved
    tails = PROTECTED_IN.get(os.path.basename(path).lower(), ())
    folder = os.path.dirname(path)
    for _ in range(max((tail.count("/") for tail in tails if folder.lower().endswith(tail)), default=0)):
        yield folder
        folder = os.path.dirname(folder)


def profile_for(
    kind: Kind,
    boundary: Boundary,
    known: WorkspaceSurvey,
    *,
    writable: Sequence[str],
    hidden: Sequence[str],
    scratch: str,
    network: bool,
    closed: Sequence[str] = (),
    empty: str = "",
) -> SandboxProfile:
    """Make the profile of one command. `writable` are further places the user opened for writing, `closed`
    the protected paths in them, `hidden` further places to hide, such as sockets."""
    roots = tuple(dict.fromkeys((boundary.root, *boundary.extra)))
    repositories = tuple(dict.fromkeys((*git_folders(boundary, roots), *known.repositories)))
    changing = kind == "workspace"
    opened = tuple(map(os.path.realpath, writable))
    own_git = [path for path in repositories if os.path.isdir(path) and not os.path.islink(path)]
    own = (*own_git, *(folder for path in known.protected for folder in _own_folders(path)))
    open_places = (*roots, *own, *opened) if changing else ()
    unseen = (path for path in known.unseen if not lies_in_any(path, opened))
    protected = (
        *(os.path.realpath(path) for path in (*names_at_top(roots), *known.protected, *unseen)),
        *git_programs(boundary, repositories),
        *_inside_git(repositories, open_places),
        *_at_home(boundary, open_places),
        *map(os.path.realpath, closed),
    )
    secrets = (*_secret_places(boundary), *hidden, *(() if changing else known.secrets[:MAX_SECRETS]))
    covered = tuple(path for path in _outermost(secrets) if not any(is_at_or_below(r, path) for r in roots))
    records = () if changing else tuple(record_folders((boundary.root, *boundary.extra, boundary.main)))
    covered = _outermost((*covered, *(path for path in records if not is_at_or_below(boundary.root, path))))
    return SandboxProfile(
        kind=kind,
        shown=tuple(
            root for root in (boundary.home, *roots) if _is_in_scratch(root) and os.path.lexists(root)
        ),
        writable=tuple(place for place in dict.fromkeys(open_places) if os.path.lexists(place)),
        protected=_few(path for path in _within(protected, open_places) if os.path.exists(path)),
        hidden=covered,
        scratch=scratch,
        network=network and changing,
        files=tuple(path for path in open_places if os.path.isfile(path)),
        reopened=output_folders(path for path in covered if is_records(path)),
        empty=empty,
    )


def with_places(boundary: Boundary, places: Iterable[str]) -> Boundary:
    """Add the folders among the opened places to the boundary, so that names in them are protected as in the
    workspace. Hidden folders of the home folder are left out: they belong to one program and are big."""
    extra = list(boundary.extra)
    for place in sorted(map(os.path.realpath, places)):
        known = lies_in_any(place, (boundary.root, *extra))
        of_a_program = is_at_or_below(place, boundary.home) and "/." in place[len(boundary.home) :]
        if (
            not known
            and not of_a_program
            and os.path.isdir(place)
            and not is_at_or_below(boundary.home, place)
        ):
            extra.append(place)
    return msgspec.structs.replace(boundary, extra=tuple(extra))


def search_place(place: str, home: str, most: int = MAX_ENTRIES) -> OpenedPlace:
    """Search a file or folder that is to be opened for a command. Blocks."""
    if not os.path.isdir(place):
        return OpenedPlace((place,))
    found = Surveyor((place,), home, most).look()
    own_git = (path for path in found.repositories if os.path.isdir(path) and not os.path.islink(path))
    closed = (*found.protected, *found.secrets, *_inside_git(found.repositories, (place,)))
    return OpenedPlace((place, *own_git), closed, found.complete)


def _is_in_scratch(path: str) -> bool:
    """Tell whether a private `/tmp` would hide a folder."""
    return lies_in_any(path, ("/tmp", "/var/tmp"))  # noqa: S108 - places to compare


def open_sockets(writable: Sequence[str]) -> tuple[str, ...]:
    """Return Unix sockets outside of some places: a readable file system is no permission to talk to its
    services. The system knows the names they were bound to, which may be relative or replaced since."""
    try:
        with open("/proc/net/unix", "rb") as file:
            lines = file.read().split(b"\n")[1:]
    except OSError:
        return ()
    fields = (line.split(None, 7) for line in lines)
    named = {os.fsdecode(field[7]) for field in fields if len(field) == 8 and not field[7].startswith(b"@")}
    folders = {os.path.dirname(name) for name in named if name.startswith("/")}
    relative = [name for name in named if not name.startswith("/")]
    if relative:
        folders |= {os.path.join(folder, os.path.dirname(name)) for folder in _working() for name in relative}
    return tuple(
        path
        for folder in sorted({os.path.normpath(folder) for folder in folders})
        if not lies_in_any(folder, (*writable, *_OWN))
        for path in _sockets_in(folder)
    )


def _working() -> set[str]:
    """Return the working folders of all processes of this user."""
    folders: set[str] = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # ended, or another user's
                folders.add(os.readlink(f"/proc/{name}/cwd"))
    return folders


def _sockets_in(folder: str) -> Iterator[str]:
    """Yield the sockets in a folder, without a `stat` of entries that can't be one."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, MAX_BESIDE):
            if entry.is_symlink() or entry.is_dir() or entry.is_file():
                continue
            if stat.S_ISSOCK(entry.stat().st_mode):
                yield entry.path


def names_at_top(roots: Sequence[str]) -> Iterator[str]:
    """Return the protected names at the top of the workspace, spelt as on disk."""
    for root in roots:
        try:
            names = os.listdir(root)
        except OSError:
            continue
        for name in names:
            if is_protected_name(name.lower()):
                yield os.path.join(root, name)


def git_folders(boundary: Boundary, roots: Sequence[str]) -> Iterator[str]:
    """Return the `.git` of each root and of the main tree, if it exists."""
    for root in (*roots, *((boundary.main,) if boundary.main else ())):
        path = os.path.join(root, ".git")
        if os.path.lexists(path):
            yield path


def git_programs(boundary: Boundary, repositories: Sequence[str]) -> Iterator[str]:
    """Yield the files and folders of the workspace that git runs in one of its repositories, except those of
    installed packages, which their package manager writes."""
    roots = (boundary.root, *boundary.extra)
    inner = (os.path.dirname(path) if os.path.basename(path) == ".git" else path for path in repositories)
    found = programs_of_git(
        dict.fromkeys((*roots, *inner)), boundary.home, within=roots, settings=boundary.git_settings
    )
    return (path for path in found if os.path.lexists(path) and not is_in_package(path))


def _inside_git(repositories: Sequence[str], places: Sequence[str]) -> Iterator[str]:
    """Yield the paths inside git folders that must not change; a `.git` file is protected as a whole."""
    yield from (os.path.realpath(path) for path in repositories if not os.path.isdir(path))
    data = git_data(repositories, places)
    yield from data.rest
    for folder in data.folders:
        yield from protected_entries(folder)


def _at_home(boundary: Boundary, writable: Sequence[str]) -> Iterator[str]:
    """Return the user's own settings when the workspace is the home folder or contains it."""
    if any(is_at_or_below(boundary.home, place) for place in writable):
        yield from (boundary.home + name for name, _reason in PROTECTED_AT_HOME)
        yield from (os.path.join(boundary.home, name) for name in PROTECTED_ANYWHERE)
    yield from boundary.own


def _secret_places(boundary: Boundary) -> Iterator[str]:
    """Return the files and folders with credentials that exist on this machine."""
    home = boundary.home
    for folder in _HOME_FOLDERS:
        try:
            names = os.listdir(os.path.join(home, folder))
        except OSError:
            continue
        yield from (os.path.join(home, folder, name) for name in names if name.lower() in SECRET_ANYWHERE)
    spellings = Spellings(home)
    yield from (path for name, _reason in SECRET_AT_HOME for path in spellings.find(name))
    yield from (name for name, _reason in SECRET_ROOTS if not name.startswith("/proc"))
    yield from boundary.own


class Spellings:
    """Finds entries below a folder by their lower-case names. Reads each folder once."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._names: dict[str, tuple[str, ...]] = {}

    def find(self, name: str) -> tuple[str, ...]:
        """Return the existing entries with a relative path, in any spelling."""
        paths = [self._top]
        for part in name.strip("/").split("/"):
            paths = [
                os.path.join(path, each)
                for path in paths
                for each in self._read(path)
                if each.lower() == part
            ]
        return tuple(paths)

    def _read(self, folder: str) -> tuple[str, ...]:
        if folder not in self._names:
            try:
                self._names[folder] = tuple(os.listdir(folder))
            except OSError:
                self._names[folder] = ()
        return self._names[folder]


def _within(paths: Iterable[str], places: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that are in one of the places and would otherwise be writable, each once."""
    return tuple(path for path in dict.fromkeys(paths) if lies_in_any(path, places))


def _few(paths: Iterable[str], most: int = MAX_PROTECTED) -> tuple[str, ...]:
    """Return the paths, or, if there are too many, the folders that contain most of them instead."""
    found = tuple(paths)
    while len(found) > most:
        left, folded = len(found) - most, set[str]()
        for folder, count in Counter(map(os.path.dirname, found)).most_common():
            if left > 0:
                left -= count - 1
                folded.add(folder)
        found = _outermost(folder if (folder := os.path.dirname(path)) in folded else path for path in found)
    return found


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return existing real paths without those inside another one."""
    existing = sorted({os.path.realpath(path) for path in paths if os.path.exists(path)})
    kept: list[str] = []
    for path in existing:
        if not kept or not is_at_or_below(path, kept[-1]):
            kept.append(path)
    return tuple(kept)
