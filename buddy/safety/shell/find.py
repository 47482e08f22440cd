"""find: its expression word by word. What it executes is judged as a command of its own."""

from __future__ import annotations

from collections.abc import Callable

from buddy.safety.shell.names import words
from buddy.safety.shell.place import Feed, Judged, RefusedError, expression_names_secret, pattern_names_secret
from buddy.safety.shell.verdict import UNRESOLVED
from buddy.safety.shell.walk import check_links, check_secrets

_PLAIN = words(
    "-a -and -o -or -not ! ( ) , -print -print0 -ls -prune -quit -empty -depth -d -daystart -true -false "
    "-readable "
    "-writable -executable -xdev -mount -follow -nouser -nogroup -noleaf -ignore_readdir_race -nowarn -warn"
)
_NAMES = words("-name -iname -path -ipath -wholename -iwholename -lname -ilname")
_VALUED = words(
    "-type -xtype -maxdepth -mindepth -size -mtime -ctime -atime -mmin -cmin -amin -perm -user -group "
    "-links -inum "
    "-regex -iregex -regextype -printf -fstype -uid -gid -used -newermt -newerat -newerct"
)
_FILES = words("-newer -anewer -cnewer -samefile -neweraa -newermm")
_NARROWS = words("-name -iname -path -ipath -wholename -iwholename -regex -iregex")
DUMPS = words(
    "cat head tail nl tac rev sed awk gawk mawk sort uniq cut paste od xxd hexdump hd strings base64 base32 "
    "fold fmt expand column jq diff cmp join comm"
)
"""Programs that show what a file holds, whatever it is."""

EXECUTES = words("-exec -execdir -ok -okdir")


def find_with(judge_inner: Callable[[Judged], None]) -> Callable[[Judged], None]:
    """A judge of find that hands what it executes to `judge_inner`."""

    def find(judged: Judged) -> None:
        rest = list(judged.argv[1:])
        follows = False
        while rest and rest[0] in ("-H", "-L", "-P"):
            follows = rest.pop(0) == "-L" or follows
        starts: list[str] = []
        while rest and not rest[0].startswith("-") and rest[0] not in ("(", "!", ")", ","):
            starts.append(rest.pop(0))
        for start in starts:
            judged.name(start)
        facts = _expression(judged, rest, tuple(starts), judge_inner)
        if follows or facts.follows:
            check_links(judged, tuple(starts))
        if facts.lists and not facts.picks_secrets:
            anchored = all(not start.startswith("-") for start in starts)  # without a start: ./
            judged.lists = Feed(tuple(starts), anchored, facts.nul, facts.no_links, facts.narrowed)

    return find


class _Seen:
    """What an expression turned out to do."""

    def __init__(self) -> None:
        self.follows = False
        self.picks_secrets = False
        self.lists = True
        self.nul = False
        self.no_links = False
        self.narrowed = False


def _expression(
    judged: Judged, rest: list[str], starts: tuple[str, ...], judge_inner: Callable[[Judged], None]
) -> _Seen:
    seen = _Seen()
    inner: list[tuple[str, ...]] = []
    negated = has_or = False
    while rest:
        word = rest.pop(0)
        if word in _PLAIN:
            seen.follows = seen.follows or word == "-follow"
            seen.nul = seen.nul or word == "-print0"
            seen.lists = seen.lists and word != "-ls"
        elif word in EXECUTES:
            inner.append(_executed(judged, rest, word))
            seen.lists = False
        else:
            value = _value(judged, word, rest)
            if word in _NAMES and not negated:
                seen.picks_secrets = seen.picks_secrets or _picks_secret(judged, value)
            seen.narrowed = seen.narrowed or (not negated and word in _NARROWS)
            if word in ("-regex", "-iregex") and not negated:
                seen.picks_secrets = seen.picks_secrets or expression_names_secret(value)
            seen.no_links = seen.no_links or (word == "-type" and value == "f" and not negated)
            seen.lists = seen.lists and word != "-printf"
        has_or = has_or or word in ("-o", "-or", ",")
        negated = word in ("!", "-not")
    seen.no_links = seen.no_links and not has_or
    for argv in inner:
        if seen.picks_secrets:
            raise RefusedError("it runs a command on secret files")
        if argv[0] in DUMPS and not (seen.narrowed and not has_or):
            check_secrets(judged, starts)
        if not seen.no_links:
            check_links(judged, starts)
        judge_inner(judged.again(argv))
    return seen


def _value(judged: Judged, word: str, rest: list[str]) -> str:
    if word not in _NAMES and word not in _VALUED and word not in _FILES:
        raise RefusedError(f"find {word} is not known to only read")
    if not rest:
        raise RefusedError(f"find {word} needs a value")
    value = rest.pop(0)
    if word in _FILES:
        judged.name(value)
    return value


def _picks_secret(judged: Judged, pattern: str) -> bool:
    if pattern_names_secret(pattern.rsplit("/", 1)[-1]):
        return True
    try:
        judged.read(pattern.strip("/*") or ".")
    except RefusedError:
        return True
    return False


def _executed(judged: Judged, rest: list[str], word: str) -> tuple[str, ...]:
    """The command after -exec, the name of a found file standing for `{}`. What find hands over starts with a
    start folder, so it cannot be an option; -execdir hands over `./name`."""
    if word in ("-ok", "-okdir"):
        raise RefusedError(f"find {word} waits for an answer")
    argv: list[str] = []
    while rest:
        piece = rest.pop(0)
        if piece == ";":
            return tuple(_filled(argv, 1))
        if piece == "+" and argv and argv[-1] == "{}":
            return tuple(_filled(argv, 3))
        argv.append(piece)
    raise RefusedError(f"find {word} does not end")


def _filled(argv: list[str], times: int) -> list[str]:
    if not argv or "{}" in argv[0]:
        raise RefusedError("find executes what it finds")
    filled: list[str] = []
    for piece in argv:
        if piece == "{}":
            filled.extend([f"./{UNRESOLVED}"] * times)
        elif "{}" in piece:
            raise RefusedError("find puts a name inside another word")
        else:
            filled.append(piece)
    return filled
