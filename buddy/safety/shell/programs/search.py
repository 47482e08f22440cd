"""grep, ripgrep and fd."""

from __future__ import annotations

import re

import msgspec

from buddy.safety.shell.context import Feed, JudgedCommand, RefusedError, expression_names_secret
from buddy.safety.shell.file_selection import (
    Candidate,
    Filter,
    any_of,
    content_filter,
    glob_filter,
    line_filter,
    no_hidden,
    search_expression,
)
from buddy.safety.shell.programs.names import words
from buddy.safety.shell.programs.options import Given, parse, table
from buddy.safety.shell.result import UNRESOLVED
from buddy.safety.shell.secret_search import (
    check_hunt,
    check_ignore_files,
    check_links,
    check_search,
    check_special_files,
)

_KEEP_LINES = frozenset(
    {"-i", "-v", "-E", "-F", "-G", "-P", "-w", "-x", "-e", "-a", "--invert-match", "--regexp"}
)
_LISTS = ("-l", "-L", "--files-with-matches", "--files-without-match")
_INVERTS = ("-v", "-L", "--invert-match", "--files-without-match")
_RG_IGNORE = frozenset({".gitignore", ".ignore", ".rgignore"})
_FD_IGNORE = frozenset({".gitignore", ".ignore", ".fdignore"})
_SOURCE_TYPES = words("py js ts rust go java c cpp md html css ruby php swift kotlin")
"""Types of ripgrep's that no secret file has."""


def _split(given: Given, *names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return patterns and files of a command whose first operand is the pattern unless an option gives it."""
    if given.has(*names):
        return tuple(
            value for name, value in given.options if name in ("-e", "--regexp") and value is not None
        ), given.operands
    return given.operands[:1], given.operands[1:]


def values(given: Given, *names: str) -> list[str]:
    """Return all values given to one of these options."""
    return [value for name, value in given.options if name in names and value is not None]


def dialect_of(judged: JudgedCommand, given: Given, usual: str) -> str:
    """Return the dialect of a grep's patterns."""
    if judged.argv[0] == "fgrep" or given.has("-F", "--fixed-strings"):
        return "fixed"
    if given.has("-P", "--perl-regexp"):
        return "perl"
    return "extended" if judged.argv[0] == "egrep" or given.has("-E", "--extended-regexp") else usual


def grep(judged: JudgedCommand) -> None:
    """grep, egrep and fgrep."""
    given = parse(judged, table("grep").options)
    if given.has("-V", "--version"):
        return
    patterns, files = _split(given, "-e", "--regexp", "-f", "--file")
    if not patterns and not given.has("-f", "--file"):
        raise RefusedError("grep without a pattern")
    for file in files:
        judged.read(file)
    recursive = given.has("-r", "-R", "--recursive", "--dereference-recursive")
    recursive = recursive or given.value("-d", "--directories") == "recurse"
    follows = given.has("-R", "--dereference-recursive") or given.value("-d", "--directories") == "recurse"
    if follows:
        check_links(judged, files)
        check_special_files(judged, files)
    shows_others = given.has(*_INVERTS, "-f", "--file", "-z", "--null-data")
    expression = None if shows_others else search_expression(patterns, dialect_of(judged, given, "basic"))
    includes = any_of(glob_filter(value) for value in values(given, "--include"))
    filters = (includes,) if includes else ()
    listing = given.has(*_LISTS)
    if recursive and not (listing and shows_others):
        check_search(judged, files, expression, filters, follow=follows)
    if recursive:
        check_hunt(judged, files, patterns, expression, filters)
    _check_results(judged, patterns, expression)
    if (recursive or files) and listing:
        judged.lists = _names(files, nul=given.has("-Z", "--null"), filters=filters, expression=expression)
    elif not files and not recursive:
        judged.lists = _filter_names(judged, given, patterns, expression)


def _check_results(
    judged: JudgedCommand, patterns: tuple[str, ...], expression: re.Pattern[str] | None
) -> None:
    """Do the same for files that another program found."""
    found = judged.stands_for
    if found is not None and any(UNRESOLVED in word for word in judged.argv):
        check_search(judged, found.roots, expression, found.filters)
        check_hunt(judged, found.roots, patterns, expression, found.filters)


def _filter_names(
    judged: JudgedCommand, given: Given, patterns: tuple[str, ...], expression: re.Pattern[str] | None
) -> Feed | None:
    """Filter listed names: output of grep is still names unless it picks secret ones or parts of lines."""
    if judged.feed is None or not all(name in _KEEP_LINES for name, _ in given.options):
        return None
    if not given.has(*_INVERTS) and any(map(expression_names_secret, patterns)):
        return None
    lines = line_filter(expression)
    return msgspec.structs.replace(judged.feed, filters=(*judged.feed.filters, *([lines] if lines else ())))


def _names(
    files: tuple[str, ...],
    *,
    nul: bool,
    filters: tuple[Filter, ...] = (),
    expression: re.Pattern[str] | None = None,
) -> Feed:
    """Return listed names, which start with the operands they were found under; without operands, with
    anything."""
    anchored = bool(files) and not any(file.startswith("-") for file in files)
    content = content_filter(expression)
    return Feed(files, anchored, nul, no_links=True, filters=(*filters, *([content] if content else ())))


def rg(judged: JudgedCommand) -> None:
    """ripgrep: nothing that starts another program (--pre, --search-zip, --hostname-bin)."""
    given = parse(judged, table("rg").options)
    if given.has("-V", "--version", "--type-list"):
        return
    filters = _rg_filters(given)
    expression: re.Pattern[str] | None = None
    patterns: tuple[str, ...] = ()
    if given.has("--files"):
        files = given.operands
    else:
        patterns, files = _split(given, "-e", "--regexp", "-f", "--file")
        if not patterns and not given.has("-f", "--file"):
            raise RefusedError("rg without a pattern")
        if not given.has(*_INVERTS[:1], *_INVERTS[2:], "-f", "--file", "--passthru", "--multiline-dotall"):
            expression = search_expression(patterns, _rg_dialect(given))
    for file in files:
        judged.read(file)
    check_ignore_files(judged, files, _RG_IGNORE)
    if given.has("-L", "--follow"):
        check_links(judged, files)
    if not given.has("--files"):
        check_search(judged, files, expression, filters, follow=given.has("-L", "--follow"))
        check_hunt(judged, files, patterns, expression, filters)
        _check_results(judged, patterns, expression)
    if given.has("-l", "--files", "--files-with-matches", "--files-without-match"):
        judged.lists = _names(files, nul=given.has("-0", "--null"), filters=filters, expression=expression)


def _rg_dialect(given: Given) -> str:
    if given.has("-F", "--fixed-strings"):
        return "fixed"
    return "perl" if given.has("-P", "--pcre2") else "rust"


def _rg_filters(given: Given) -> tuple[Filter, ...]:
    found: list[Filter] = []
    if not given.has("-u", "-.", "--hidden", "--unrestricted"):
        found.append(no_hidden)
    globs = values(given, "-g", "--glob", "--iglob")
    names = any_of(glob_filter(glob.rpartition("/")[2]) for glob in globs if not glob.startswith("!"))
    types = values(given, "-t", "--type")
    if types and not given.has("--type-add") and all(one in _SOURCE_TYPES for one in types):
        return (_nothing,)
    return (*found, names) if names else tuple(found)


def _nothing(_file: Candidate) -> bool:
    """No secret file is of these types."""
    return False


def fd(judged: JudgedCommand) -> None:
    """fd: it may list, not execute."""
    given = parse(judged, table("fd").options)
    if given.has("-V", "--version"):
        return
    folders = given.operands[1:]
    for folder in (*folders, *values(given, "--search-path")):
        judged.name(folder)
    check_ignore_files(judged, (*folders, *values(given, "--search-path")), _FD_IGNORE)
    if given.has("-L", "--follow"):
        check_links(judged, folders)
    if any(map(expression_names_secret, given.operands[:1])):
        return
    filters: list[Filter] = [] if given.has("-H", "-u", "--hidden", "--unrestricted") else [no_hidden]
    if given.operands and not given.has("-p", "--full-path", "-g", "--glob", "-F", "--fixed-strings"):
        lines = line_filter(search_expression(given.operands[:1], "rust"))
        filters.extend([lines] if lines else [])
    judged.lists = _names(folders, nul=given.has("-0", "--print0"), filters=tuple(filters))


SEARCH = {"grep": grep, "egrep": grep, "fgrep": grep, "rg": rg, "fd": fd, "fdfind": fd}
