"""The place where a command would run, and the checks of what a simple command may read."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.paths import Boundary, Located, is_beneath, locate
from buddy.safety.shell.file_selection import Filter
from buddy.safety.shell.programs.names import word_list
from buddy.safety.shell.result import UNRESOLVED
from buddy.safety.wildcards import STAR, wildcard

TRUSTED_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin"
_HARMLESS_DEVICES = frozenset({"/dev/null", "/dev/stdin"})
_ENDLESS_DEVICES = frozenset({"/dev/zero", "/dev/urandom", "/dev/random"})
_SECRET_SAMPLES = word_list("secret samples")
_ORDINARY_SAMPLES = word_list("ordinary samples")


_PUBLIC_FILES = word_list("public files")
_PUBLIC_TREES = (
    *("/usr/include", "/usr/share", "/usr/lib", "/usr/lib64", "/usr/bin", "/usr/sbin", "/usr/src"),
    *("/bin", "/sbin", "/lib", "/lib64"),
)
"""Folders of installed packages. Links out of them are resolved before this check."""

_COUNTED = re.compile(r" (?:-[cNl] ?|--(?:read-)?bytes[= ])[0-9]")
"""Options that limit the output of head, od and xxd."""


FOUND_NAME = f"./{UNRESOLVED}"
"""Placeholder for a file that find or xargs passes to a command."""


class RefusedError(Exception):
    """A command is not known to only read. The message is for the person."""


class CommandPlace(msgspec.Struct, frozen=True):
    """Surroundings of a command: the workspace's boundary, the PATH its program names are looked up in, and
    the variables of the loops around it, the innermost first."""

    boundary: Boundary
    search_path: str = TRUSTED_PATH
    variables: tuple[tuple[str, str | None], ...] = ()

    def with_variable(self, name: str, value: str | None) -> CommandPlace:
        """Return the same place inside a loop: a variable and its value, None when only the running shell
        knows it."""
        return msgspec.structs.replace(self, variables=((name, value), *self.variables))

    def after_cd(self, folder: str, *, may_miss: bool = False) -> CommandPlace:
        """Return the same place one `cd` of the shell later. To bash `link/..` is the folder the link stands
        in, to programs the one above where it leads. Raises `RefusedError` where the two readings differ, and
        where `inside` does."""
        moved = self.inside(folder, may_miss=may_miss)
        parts = [part for part in folder.split("/") if part and part != "."]
        if ".." in parts:
            start = "/" if folder.startswith("/") else self.boundary.cwd
            textual = os.path.normpath(os.path.join(start, *parts))
            if os.path.realpath(textual) != os.path.realpath(os.path.join(start, *parts)):
                raise RefusedError(f"it changes to {folder}: .. behind a link means two folders")
            if os.path.relpath(textual, start).startswith(".."):
                raise RefusedError(f"it changes to {folder}, above where it starts")
        return moved

    def inside(self, folder: str, *, may_miss: bool = False) -> CommandPlace:
        """Return the same place in another folder. Raises `RefusedError` for a folder that is not in the
        workspace, or that is not there unless it `may_miss`."""
        located = _locate(self.boundary, folder)
        if not located.inside:
            raise RefusedError(f"it changes to {located.shown}, outside the workspace")
        if not os.path.isdir(located.real) and not (may_miss and not os.path.lexists(located.path)):
            raise RefusedError(f"it changes to {located.shown}, which is no folder")
        boundary = msgspec.structs.replace(self.boundary, cwd=located.real)
        return msgspec.structs.replace(self, boundary=boundary)


_GIT_OBJECTS = re.compile(
    r"/objects/(?:[0-9a-f]{2}/[0-9a-f]{38,}|pack/[^/]+\.pack)\Z|/\.git/(?:.*/)?lfs/objects/"
)
"""What git keeps of the content of files: compressed, which a gzip header before it undoes."""


class Feed(msgspec.Struct, frozen=True):
    """File names that come through a pipe: names beneath `roots`, each ended by a NUL when `nul`. `anchored`:
    none of them can be taken for an option; `no_links`: none of them is a link; `filters`: the tests they
    passed."""

    roots: tuple[str, ...]
    anchored: bool
    nul: bool = False
    no_links: bool = False
    filters: tuple[Filter, ...] = ()


class JudgedCommand:
    """One simple command while it is judged: its words after expansion, what feeds it, and the paths it was
    found to read. `splits`: positions of words that the shell may split; `stands_for`: the files of which an
    unresolved word is one; `wide`: why the command is not of level core. Validators raise `RefusedError`;
    what they do not refuse only reads."""

    def __init__(
        self,
        place: CommandPlace,
        argv: tuple[str, ...],
        *,
        opaque: frozenset[int] = frozenset(),
        globbed: frozenset[int] = frozenset(),
        splits: frozenset[int] = frozenset(),
        feed: Feed | None = None,
        stands_for: Feed | None = None,
    ) -> None:
        self.place = place
        self.argv = argv
        self.opaque = opaque
        self.globbed = globbed
        self.splits = splits
        self.feed = feed
        self.stands_for = stands_for
        self.reads: list[Located] = []
        self.wide: list[str] = []
        self.lists: Feed | None = None

    def widen(self, reason: str) -> None:
        """Take the command out of level core."""
        self.wide.append(reason)

    def read(self, given: str) -> None:
        """Refuse a path whose content may not be read without asking."""
        if given in ("-", "") or given in _HARMLESS_DEVICES or self._is_found(given):
            return
        if given in _ENDLESS_DEVICES:
            if self.argv[0] in ("head", "od", "xxd") and _COUNTED.search(" ".join(self.argv)):
                return
            raise RefusedError(f"{given} never ends")
        located = self._inside(given)
        if located.secret:
            raise RefusedError(f"it reads {located.shown}: {located.secret}")
        if _GIT_OBJECTS.search(located.real):
            raise RefusedError(f"{located.shown} holds files of the whole history, secret ones too")
        if pattern_names_secret(os.path.basename(given.rstrip("/"))):
            raise RefusedError(f"it may read secrets: {given}")
        if _waits(located.real):
            raise RefusedError(f"it reads {located.shown}, a pipe or a device, which may never end")

    def name(self, given: str) -> None:
        """Refuse a path that may not even be looked at. Names and sizes of secret files may be."""
        if given in ("-", "") or given in _HARMLESS_DEVICES | _ENDLESS_DEVICES or self._is_found(given):
            return
        self._inside(given)

    def _is_found(self, given: str) -> bool:
        """Tell whether a word stands for a file another program found; those files are judged where they are
        found."""
        if UNRESOLVED not in given:
            return False
        if given != FOUND_NAME or self.stands_for is None:
            raise RefusedError("it reads a file that is only known when it runs")
        return True

    def _inside(self, given: str) -> Located:
        located = _locate(self.place.boundary, given)
        if not located.inside and not is_public(located.real):
            raise RefusedError(f"it looks outside the workspace: {located.shown}")
        self.reads.append(located)
        return located

    def again(self, argv: tuple[str, ...], place: CommandPlace | None = None) -> JudgedCommand:
        """Return the command inside a wrapper, or in another place. What it reads counts as read by the
        whole."""
        inner = JudgedCommand(place or self.place, argv, feed=self.feed, stands_for=self.stands_for)
        inner.reads = self.reads
        inner.wide = self.wide
        return inner


def is_public(path: str) -> bool:
    """Tell whether a real path has the same content on every machine, or states a fact about this one that
    reveals nothing about its users."""
    return path in _PUBLIC_FILES or any(is_beneath(path, tree) for tree in _PUBLIC_TREES)


def files_above(judged: JudgedCommand, name: str) -> Iterator[str]:
    """Yield all files of a name in the folders from the working directory upwards."""
    folder = judged.place.boundary.cwd
    while True:
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            yield path
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _waits(path: str) -> bool:
    """Tell whether reading may wait for a writer, or never end."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _locate(boundary: Boundary, given: str) -> Located:
    """Locate a word of an argv. The shell has already expanded tildes, so that one left over is part of a
    name."""
    if given.startswith("~"):
        given = f"./{given}"
    try:
        return locate(boundary, given)
    except ToolError as error:
        raise RefusedError(str(error)) from error


def pattern_names_secret(pattern: str) -> bool:
    """Tell whether a glob names secret files in particular: it matches one of their names and no ordinary
    one, or it is a pattern for hidden files that matches `.env`."""
    if not re.search(r"[*?\[]", pattern):
        return False
    expression = glob_expression(pattern)
    return _singles_out(expression) or (pattern.startswith(".") and expression.fullmatch(".env") is not None)


def expression_names_secret(expression: str) -> bool:
    """Do the same for a regular expression as grep would search it."""
    try:
        compiled = re.compile(expression.replace(r"\|", "|"), re.IGNORECASE)
    except re.error:
        return True
    return _singles_out(compiled, whole=False)


def _singles_out(expression: re.Pattern[str], *, whole: bool = True) -> bool:
    look = expression.fullmatch if whole else expression.search
    return any(map(look, _SECRET_SAMPLES)) and not any(map(look, _ORDINARY_SAMPLES))


def glob_expression(pattern: str) -> re.Pattern[str]:
    """Return a shell glob of one path component as a regular expression."""
    return compile_glob(glob_pieces(pattern), re.IGNORECASE)


def glob_pieces(pattern: str) -> list[str]:
    """Return the pieces of a shell glob of one path component."""
    pieces: list[str] = []
    for piece in re.findall(r"\*+|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL):
        if piece.startswith("*"):
            pieces.append(STAR)
        elif piece == "?":
            pieces.append(".")
        elif piece.startswith("[") and len(piece) > 1:
            inner = piece[1:-1]
            negated = inner.startswith("!")
            pieces.append(
                f"[{'^' if negated else ''}{re.escape(inner[negated:]).replace(chr(92) + '-', '-')}]"
            )
        else:
            pieces.append(re.escape(piece))
    return pieces


def compile_glob(pieces: list[str], flags: int = 0) -> re.Pattern[str]:
    """Return the regular expression of a glob in pieces. Raises `RefusedError`."""
    try:
        return re.compile(wildcard(pieces), re.DOTALL | flags)
    except re.error as error:  # a range whose ends are the wrong way round
        raise RefusedError(f"an odd pattern: {''.join(pieces)}") from error
