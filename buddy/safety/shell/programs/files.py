"""Programs that show files, folders, archives and binaries."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from buddy.safety.shell.context import JudgedCommand, RefusedError
from buddy.safety.shell.programs.names import words
from buddy.safety.shell.programs.options import parse, table
from buddy.safety.shell.result import UNRESOLVED
from buddy.safety.shell.secret_search import check_links, check_secrets


def ls(judged: JudgedCommand) -> None:
    """Judge ls: a recursive listing that follows links must stay inside."""
    if any(re.fullmatch(r"-[A-Za-z1]*d[A-Za-z1]*|--directory", word) for word in judged.argv[1:]):
        # The parent folder that `.*` may match is not looked into.
        judged.argv = tuple(
            word for place, word in enumerate(judged.argv) if word != ".." or place not in judged.globbed
        )
    given = table("ls").check(judged)
    if given.has("-R", "--recursive") and given.has("-L", "--dereference"):
        check_links(judged, given.operands)


def diff(judged: JudgedCommand) -> None:
    """diff: it compares more than its operands where one of them is a folder."""
    given = table("diff").check(judged)
    check_diff(judged, given.operands, shows=not given.has("-q", "--brief"))


def check_diff(judged: JudgedCommand, operands: tuple[str, ...], *, shows: bool) -> None:
    """Refuse what diff may not open for its operands. It follows links in two folders, and compares a file
    with the one of the same name in a folder. `shows`: it prints what differs."""
    if any(UNRESOLVED in operand for operand in operands):
        raise RefusedError(f"{judged.argv[0]} with a name that is only known when it runs")
    cwd = judged.place.boundary.cwd
    folders = tuple(one for one in operands if os.path.isdir(os.path.join(cwd, one)))
    if len(folders) == len(operands):
        check_links(judged, folders)
        if shows:
            check_secrets(judged, folders, follow=True)
        return
    for folder in folders:
        for other in operands:
            if other not in folders:
                judged.read(os.path.join(folder, os.path.basename(other)))


def sums(judged: JudgedCommand) -> None:
    """md5sum and its like: with -c they open the files a list names."""
    given = parse(judged, table("md5sum").options)
    if given.has("-c", "--check"):
        raise RefusedError(f"{judged.argv[0]} -c reads the files that a list names")
    for operand in given.operands:
        judged.read(operand)


def du(judged: JudgedCommand) -> None:
    """du."""
    given = table("du").check(judged)
    if given.has("-L", "--dereference"):
        check_links(judged, given.operands)


def tree(judged: JudgedCommand) -> None:
    """tree: `-Io x y` is -I x and -o y to it, so values are never read as attached."""
    if any(re.match(r"-[A-Za-z]*[LPI].", word) for word in judged.argv[1:]):
        raise RefusedError("tree options with attached values are read differently by its versions")
    given = table("tree").check(judged)
    if given.has("-l"):
        check_links(judged, given.operands)


def xxd(judged: JudgedCommand) -> None:
    """xxd: it compares options by their first letters, and a second operand is the output."""
    operands: list[str] = []
    words = list(judged.argv[1:])
    while words:
        word = words.pop(0)
        if operands or not word.startswith("-") or word == "-":
            operands.append(word)  # behind the first, whatever stands there is the output
        elif word in ("-c", "-g", "-l", "-s"):
            if not words or not re.fullmatch(r"[+-]?\w+", words.pop(0)):
                raise RefusedError(f"xxd {word} needs a number")
        elif word not in ("-a", "-b", "-e", "-i", "-p", "-ps", "-plain", "-u") and not re.fullmatch(
            r"-[cgls]\d+", word
        ):
            raise RefusedError(f"xxd {word} is not known to only read")
    if len(operands) > 1 or judged.globbed:
        raise RefusedError("xxd writes its second operand")
    for operand in operands:
        judged.read(operand)


def strings(judged: JudgedCommand) -> None:
    """Judge strings: an operand that starts with @ names a file with more options."""
    given = parse(judged, table("strings").options)
    for operand in given.operands:
        if operand.startswith("@"):
            raise RefusedError("strings reads options from a file that starts with @")
        judged.read(operand)


FILES = {
    "ls": ls,
    "dir": ls,
    "du": du,
    "tree": tree,
    "diff": diff,
    "xxd": xxd,
    "strings": strings,
    **dict.fromkeys(words("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum shasum"), sums),
}


_TAR_LONG = words(
    "--list --verbose --gzip --bzip2 --xz --zstd --auto-compress --numeric-owner --full-time --wildcards "
    "--no-wildcards --utc --quoting-style=literal"
)
_TAR_LETTERS = frozenset("tvzjJaf")


def tar(judged: JudgedCommand) -> None:
    """tar: only -t. An archive's name with a colon is one on another machine, reached by rsh; long options
    may be abbreviated, so only whole known ones pass."""
    rest = list(judged.argv[1:])
    letters = ""
    archives: list[str] = []
    is_first = True
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, _, value = word.partition("=")  # of two words nobody knows which belong together
            if name == "--file" and value:
                archives.append(value)
            elif (not value or name not in ("--exclude", "--strip-components")) and word not in _TAR_LONG:
                raise RefusedError(f"tar {word} is not known to only list")
        elif (is_first or word.startswith("-")) and word != "-":
            letters += _tar_cluster(judged, word, rest, archives, is_old=not word.startswith("-"))
        is_first = False
    if ("t" not in letters and "--list" not in judged.argv) or len(archives) != 1 or judged.globbed:
        raise RefusedError("tar that does more than list one archive")
    if ":" in archives[0]:
        raise RefusedError(f"tar would look for {archives[0]} on another machine")
    judged.read(archives[0])


def _tar_cluster(
    judged: JudgedCommand, word: str, rest: list[str], archives: list[str], *, is_old: bool
) -> str:
    """Return the letters of one word; the archive's name is the rest of it behind -f, or the next word."""
    letters = word if is_old else word[1:]
    before, f, after = letters.partition("f")
    if not set(before) <= _TAR_LETTERS or (is_old and not set(after) <= _TAR_LETTERS - {"f"}):
        raise RefusedError(f"tar {word} is not known to only list")
    if f and after and not is_old:
        archives.append(after)
        return before
    if f:
        if not rest:
            raise RefusedError("tar -f needs a name")
        archives.append(rest.pop(0))
    return before + after


def unzip(judged: JudgedCommand) -> None:
    """unzip: -l, -v, -t and -Z only look; zipinfo does nothing else."""
    name = judged.argv[0]
    rest = judged.argv[1:]
    clusters = [word for word in rest if word.startswith("-")]
    names = [word for word in rest if not word.startswith("-")]
    shape = r"-[12smlhvtTC]+" if name == "zipinfo" else r"-(?:[lvtqhC]*[lvt][lvtqhC]*|Z[12smlhvtTC]*)"
    if any(not re.fullmatch(shape, word) for word in clusters) or (name == "unzip" and not clusters):
        raise RefusedError(f"{name} that does more than list")
    if not names or (clusters and rest[: len(clusters)] != tuple(clusters)):
        raise RefusedError(f"{name} with options behind the archive")
    judged.read(names[0])


def unpack(judged: JudgedCommand) -> None:
    """gzip and its like: unpacking to standard output, listing and testing."""
    name = judged.argv[0]
    given = table(name).check(judged)
    prints = name.endswith("cat") or given.has("-c", "--stdout", "--to-stdout")
    looks = given.has("-l", "--list", "-t", "--test")
    unpacks = given.has("-d", "--decompress")
    if not prints and (unpacks or not looks):  # of -t and -d the last one counts
        raise RefusedError(f"{name} that replaces files")
    if name in ("gzip", "bzip2", "xz") and not looks and not unpacks:
        raise RefusedError(f"{name} that packs")


def binutil(judged: JudgedCommand) -> None:
    """Judge a program of binutils: an operand that starts with @ names a file with more options."""
    given = parse(judged, table(judged.argv[0]).options)
    if any(word.startswith("@") for word in judged.argv[1:]):
        raise RefusedError(f"{judged.argv[0]} reads options from a file that starts with @")
    for operand in given.operands or ("a.out",):
        judged.read(operand)


ARCHIVES: dict[str, Callable[[JudgedCommand], None]] = {
    "tar": tar,
    "unzip": unzip,
    "zipinfo": unzip,
    **dict.fromkeys(words("gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstdcat"), unpack),
    **dict.fromkeys(words("nm objdump readelf size"), binutil),
}
