"""grep, ripgrep and fd."""

from __future__ import annotations

import msgspec

from buddy.safety.shell.options import Given, parse
from buddy.safety.shell.place import Feed, Judged, RefusedError, expression_names_secret, hunts_secrets
from buddy.safety.shell.walk import check_links, check_secrets

GREP = (
    "-abcEFGHhiIlLnoPqrRsTUvVwxyzZ -A:num -B:num -C:num -NUM -e:text -f:read -m:num -d:text -D:text "
    "--regexp:text "
    "--file:read --include:read --exclude:text --exclude-dir:text --exclude-from:read --color? --colour? "
    "--label:text "
    "--binary-files:text --context:num --after-context:num --before-context:num --max-count:num "
    "--directories:text "
    "--devices:text --line-buffered --null --null-data --text --byte-offset --count --files-with-matches "
    "--files-without-match --with-filename --no-filename --ignore-case --no-ignore-case --invert-match "
    "--line-number "
    "--line-regexp --word-regexp --only-matching --quiet --silent --no-messages --recursive "
    "--dereference-recursive "
    "--initial-tab --fixed-strings --basic-regexp --perl-regexp --extended-regexp --binary --version"
)
RG = (
    "-abcFhHiIlLnNopPqsSuUvVwx0. -A:num -B:num -C:num -e:text -f:read -g:read -m:num -t:text -T:text "
    "-r:text -M:num "
    "-j:num -d:num -E:text --after-context:num --before-context:num --context:num --regexp:text --file:read "
    "--glob:read --iglob:read --max-depth:num --max-count:num --type:text --type-not:text --type-list "
    "--type-add:text "
    "--count --count-matches --files --files-with-matches --files-without-match --line-number "
    "--no-line-number "
    "--color:text --colors:text --context-separator:text --trim --replace:text --passthru "
    "--only-matching --smart-case "
    "--case-sensitive --ignore-case --word-regexp --fixed-strings --hidden --no-hidden --follow "
    "--no-messages --null "
    "--quiet --text --crlf --max-columns:num --max-filesize:text --max-columns-preview --one-file-system "
    "--no-config "
    "--threads:num --encoding:text --with-filename --no-filename --invert-match --line-regexp "
    "--ignore-file:read "
    "--byte-offset --sort:text --sortr:text --stats --json --heading --no-heading --vimgrep --column "
    "--no-column "
    "--no-ignore --no-ignore-vcs --no-ignore-parent --no-ignore-dot --pcre2 --multiline --multiline-dotall "
    "--unrestricted --line-buffered --glob-case-insensitive --no-require-git --version --pretty"
)
FD = (
    "-HIua0gsiFpq1LV -t:text -e:text -E:text -d:num -S:text -o:text -c:text -j:num --hidden --no-ignore "
    "--unrestricted "
    "--absolute-path --glob --regex --fixed-strings --case-sensitive --ignore-case --full-path --print0 "
    "--type:text "
    "--extension:text --exclude:text --max-depth:num --min-depth:num --exact-depth:num --size:text "
    "--prune --quiet "
    "--changed-within:text --changed-before:text --owner:text --color:text --max-results:num "
    "--no-ignore-vcs --follow "
    "--version --search-path:name"
)
_KEEP_LINES = frozenset(
    {"-i", "-v", "-E", "-F", "-G", "-P", "-w", "-x", "-e", "-a", "--invert-match", "--regexp"}
)
_LISTS = ("-l", "-L", "--files-with-matches", "--files-without-match")


def _split(given: Given, *names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Patterns and files of a command whose first operand is the pattern unless an option gives it."""
    if given.has(*names):
        return tuple(
            value for name, value in given.options if name in ("-e", "--regexp") and value
        ), given.operands
    return given.operands[:1], given.operands[1:]


def grep(judged: Judged) -> None:
    """grep, egrep and fgrep."""
    given = parse(judged, GREP)
    if given.has("-V", "--version"):
        return
    patterns, files = _split(given, "-e", "--regexp", "-f", "--file")
    if not patterns and not given.has("-f", "--file"):
        raise RefusedError("grep without a pattern")
    for file in files:
        judged.read(file)
    recursive = given.has("-r", "-R", "--recursive", "--dereference-recursive")
    if given.has("-R", "--dereference-recursive") or given.value("-d", "--directories") == "recurse":
        check_links(judged, files)
    if recursive and hunts_secrets(patterns) and not given.has("--include"):
        check_secrets(judged, files)
    if (recursive or files) and given.has(*_LISTS):
        judged.lists = _names(files, nul=given.has("-Z", "--null"))
    elif not files and not recursive:
        judged.lists = _filtered(judged, given, patterns)


def _filtered(judged: Judged, given: Given, patterns: tuple[str, ...]) -> Feed | None:
    """Names that come through grep are names still, unless it picks secret ones or parts of lines."""
    if judged.feed is None or not all(name in _KEEP_LINES for name, _ in given.options):
        return None
    inverted = given.has("-v", "--invert-match")
    if not inverted and any(map(expression_names_secret, patterns)):
        return None
    return msgspec.structs.replace(judged.feed, narrowed=judged.feed.narrowed or not inverted)


def _names(files: tuple[str, ...], *, nul: bool) -> Feed:
    """Listed names start with the operands they were found under; without operands with anything."""
    anchored = bool(files) and not any(file.startswith("-") for file in files)
    return Feed(files, anchored, nul, no_links=True, narrowed=True)


def rg(judged: Judged) -> None:
    """ripgrep: nothing that starts another program (--pre, --search-zip, --hostname-bin)."""
    given = parse(judged, RG)
    if given.has("-V", "--version", "--type-list"):
        return
    if given.has("--files"):
        files = given.operands
    else:
        patterns, files = _split(given, "-e", "--regexp", "-f", "--file")
        if not patterns and not given.has("-f", "--file"):
            raise RefusedError("rg without a pattern")
    for file in files:
        judged.read(file)
    if given.has("-L", "--follow"):
        check_links(judged, files)
    looks_everywhere = given.has("-u", "-.", "--hidden", "--unrestricted") and not given.has("--files")
    if (
        looks_everywhere
        and hunts_secrets(given.operands[:1])
        and not given.has("-g", "--glob", "-t", "--type")
    ):
        check_secrets(judged, files)
    if given.has("-l", "--files", "--files-with-matches", "--files-without-match"):
        judged.lists = _names(files, nul=given.has("-0", "--null"))


def fd(judged: Judged) -> None:
    """fd: it may list, not execute."""
    given = parse(judged, FD)
    if given.has("-V", "--version"):
        return
    folders = given.operands[1:]
    for folder in folders:
        judged.name(folder)
    if given.has("-L", "--follow"):
        check_links(judged, folders)
    if not any(map(expression_names_secret, given.operands[:1])):
        judged.lists = _names(folders, nul=given.has("-0", "--print0"))


SEARCH = {"grep": grep, "egrep": grep, "fgrep": grep, "rg": rg, "fd": fd, "fdfind": fd}
