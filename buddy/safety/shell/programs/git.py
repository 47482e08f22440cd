"""git: subcommands that only read, and the secret files in what they show.

The repository's own configuration is looked at first: it can start programs. Attributes switch the diffs of
secret files off; blobs and folders without their path are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from buddy.safety.git_configuration import executing_keys, may_set, repositories
from buddy.safety.git_repository import (
    explain_outside_data,
    may_be_tracked,
    read_regular,
    repository_around,
    shared_folder,
    tracked_by_name,
)
from buddy.safety.paths import is_beneath
from buddy.safety.shell.context import Feed, JudgedCommand, RefusedError
from buddy.safety.shell.file_selection import (
    Candidate,
    Filter,
    any_of,
    content_filter,
    glob_filter,
    no_hidden,
    search_expression,
)
from buddy.safety.shell.git_objects import Objects, paths_within, revisions, split_path
from buddy.safety.shell.programs.files import check_diff
from buddy.safety.shell.programs.names import read_entries, word_list, words
from buddy.safety.shell.programs.options import Given, parse, table
from buddy.safety.shell.programs.search import dialect_of, values
from buddy.safety.shell.result import UNRESOLVED
from buddy.safety.shell.secret_search import (
    INSTALLED,
    MAX_ENTRIES,
    check_history_search,
    check_hunt,
    check_index_search,
    check_search,
    check_tree_search,
    hunts,
)

MAX_ATTRIBUTES_BYTES = 200_000
_SHOWS_OBJECTS = frozenset({"show", "diff", "diff-tree", "diff-index", "grep", "cat-file"})
"""Subcommands that show blobs and folders named by a hash or a reference."""

_SHOWS_DIFFS = words("show diff diff-tree diff-index diff-files range-diff") | {"stash show"}
"""Subcommands that show the content of files unless an option says otherwise."""

_LISTS_ONLY = words(
    "--stat --numstat --shortstat --name-only --name-status --raw --summary -s --dirstat --compact-summary "
    "--no-patch --quiet --cumulative"
)
"""Options with which a diff shows names and numbers instead of content."""

_SHOWS_CONTENT = words(
    "-p -u --patch -U --unified -c --cc -W --function-context --binary --word-diff --color-words "
    "--patch-with-raw --word-diff-regex --check --full-diff --diff-merges -m --remerge-diff -G"
)
"""Options with which content is shown after all, or (-G) searched as it would be shown."""

_MANY_REFERENCES = ("--all", "--tags", "--remotes", "--glob", "--reflog", "-g", "--walk-reflogs")
"""Options that add references, whatever kind of object they name."""

_HASH = re.compile(r"[0-9a-fA-F]{4,64}")
_ORDINARY_ENDINGS = word_list("ordinary endings")
"""Endings that no secret file has but one that is called `.env` itself, like `.env.txt`."""

_SHOWS_AGAIN = re.compile(rb"(?m)^[^#\n]*\s!?diff(?:=|\s|$)|^\s*\[attr\]|^[^#\n]*\s-binary(?:\s|$)")


def check_shown_secrets(judged: JudgedCommand, name: str, given: Given) -> None:
    """Refuse a subcommand that would show secret files in spite of the attributes it runs with. Raises
    `RefusedError`."""
    work_tree, git_dir = repository_around(judged.place.boundary.cwd)
    if not git_dir:
        return
    named = _revisions(name, given)
    if name in _SHOWS_OBJECTS and (name != "cat-file" or given.has("-p")):
        if given.has(*_MANY_REFERENCES):
            raise RefusedError(f"git {name} shows the content of every reference, of secret files too")
        _check_objects(name, named, Objects(git_dir))
    if name == "cat-file":
        _check_blob(given)
        return
    searches = name == "grep" and bool(named)
    if (
        not searches
        and not given.has(*_SHOWS_CONTENT)
        and (name not in _SHOWS_DIFFS or given.has(*_LISTS_ONLY))
    ):
        return
    if given.has("-a", "--text", "--binary"):
        raise RefusedError(f"git {name} would show secret files, too, whose diffs are switched off otherwise")
    for path in dict.fromkeys(_attribute_files(work_tree, git_dir)):
        text = read_regular(path, MAX_ATTRIBUTES_BYTES)
        if len(text) == MAX_ATTRIBUTES_BYTES or any(map(_concerns_secrets, _SHOWS_AGAIN.finditer(text))):
            raise RefusedError(f"{path} switches diffs on, which may show secret files")


def _revisions(name: str, given: Given) -> tuple[str, ...]:
    """Return the operands that may be revisions: those before the dashes, without the pattern of a search."""
    operands = given.operands[: len(given.operands) - given.after_dashes]
    return operands[1:] if name == "grep" and not given.has("-e", "-f") else operands


def _check_objects(name: str, named: tuple[str, ...], objects: Objects) -> None:
    """Refuse blobs, which have no name to judge them by, and folders without the folder above them."""
    for word in named:
        for revision in revisions(word):
            base, path = split_path(revision)
            whole = objects.kinds(revision) if revision else frozenset[str]()
            kinds = objects.kinds(base) if base else frozenset[str]()
            if whole & {"blob", "unknown"}:
                raise RefusedError(f"{word} may be the content of any file")
            shows_names = name in ("show", "cat-file")
            if ("tree" in whole and not shows_names) or ("tree" in kinds and path is not None):
                raise RefusedError(f"{word} may be any folder")


def _attribute_files(work_tree: str, git_dir: str) -> Iterator[str]:
    """Yield the files that may switch diffs on again. git reads them in every folder, and those that are not
    in the working tree from its index. Raises `RefusedError` for one that is only there."""
    for folder in (git_dir, *shared_folder(git_dir)):
        yield f"{folder}/info/attributes"
    tracked = tracked_by_name(git_dir, ".gitattributes")
    if tracked is None:
        raise RefusedError("git's index can't be read for attributes, which may show secret files")
    for name in tracked:
        path = os.path.join(work_tree, name)
        if not os.path.lexists(path):
            raise RefusedError(f"{name} stands in git's index alone; it may switch diffs of secret files on")
        yield path
    yield from _attributes_beneath(work_tree)


def _attributes_beneath(work_tree: str) -> Iterator[str]:
    """Find attribute files in the folders of a working tree, up to `MAX_ENTRIES`: those of a clone are
    tracked."""
    pending, seen = [work_tree], 0
    while pending and seen < MAX_ENTRIES:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.name == ".gitattributes":
                        yield entry.path
                    elif entry.name not in INSTALLED and entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue  # git reads no attributes of a folder that can't be listed


def _concerns_secrets(line: re.Match[bytes]) -> bool:
    """Tell whether a line of attributes may concern more than source files: a pattern for one ordinary ending
    does not."""
    pattern = line.group().split()[0] if line.group().split() else b""
    found = re.fullmatch(rb"(?:\S*/)?\*\.([a-z0-9]+)", pattern)
    return found is None or found[1].decode("ascii") not in _ORDINARY_ENDINGS


def _check_blob(given: Given) -> None:
    """Judge a revision: a hash may be any version of any file; another revision alone is a commit, a tree or
    a tag."""
    for operand in given.operands[-1:]:
        if len(given.operands) > 1 or (given.has("-p") and _HASH.fullmatch(operand)):
            raise RefusedError(f"{operand} may be the content of any file")


_GLOBAL_FLAGS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_SECRET_KEY = re.compile(r"(?i)extraheader|credential|token|passw|secret|insteadof|cookie|proxy")
_VARIABLES = ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT", "GIT_EDITOR", "GIT_PAGER", "GIT_DEFAULT_BRANCH")
_CONFIG_PATTERN = re.compile(
    r"\^?(?:alias|user|core|branch|init|pull|push|merge|color|diff|submodule)(?:\\?\.[\w.*+$\\-]*)?"
)
_HARMLESS_CONFIG = re.compile(
    r"(?i)(?:color\.[\w.]+|core\.(?:quotepath|abbrev|precomposeunicode)|advice\.\w+|status\.(?:short|branch|showuntrackedfiles|relativepaths|aheadbehind|renames)"
    r"|log\.(?:date|decorate|abbrevcommit|follow)|diff\.(?:renames|renamelimit|algorithm|noprefix|mnemonicprefix"
    r"|context|interhunkcontext|wserrorhighlight|colormoved|indentheuristic)|blame\.\w+)=[\w, -]*"
    r"|core\.pager=(?:cat)?|core\.fsmonitor=(?:false)?|log\.showsignature=false"
)
_REVISION = re.compile(r"(?:HEAD|main|master|origin/.*|[0-9a-f]{7,40}|.*\.\..*)(?:[~^@].*)?")
_DIALECTS = words("-G -E -P -F --basic-regexp --extended-regexp --perl-regexp --fixed-strings")
_DIFF_MERGES = words("off none on m first-parent 1 separate c combined cc dense-combined")
"""Ways to show merges that do not merge again, which would run the repository's merge drivers."""

_CONFIG_KEY = re.compile(r"[A-Za-z][\w-]*(?:\.[^\s]+)?\.[A-Za-z][\w-]*")


def git(judged: JudgedCommand) -> None:
    """Judge one git command."""
    position = 1
    argv = judged.argv
    place = judged.place
    if any(UNRESOLVED in word for word in argv):
        raise RefusedError("git with a word that is only known when it runs")
    while position < len(argv) and argv[position].startswith("-"):
        if argv[position] == "-C" and position + 1 < len(argv):
            place = place.inside(argv[position + 1])
            position += 1
        elif argv[position] == "-c" and _HARMLESS_CONFIG.fullmatch(
            " ".join(argv[position + 1 : position + 2])
        ):
            position += 1
        elif argv[position] not in _GLOBAL_FLAGS:
            raise RefusedError(f"git {argv[position]} is not known to only read")
        position += 1
    if position >= len(argv):
        raise RefusedError("git without a subcommand")
    inner = judged.again(("git " + argv[position], *argv[position + 1 :]), place)
    inner.globbed = frozenset(at - position for at in judged.globbed if at > position)
    keys = executing_keys(place.boundary.cwd, place.boundary.root)
    if keys and argv[position] != "version":
        raise RefusedError(f"the repository's configuration may start programs: {', '.join(keys[:3])}")
    for work_tree, git_dir in repositories(place.boundary.cwd):
        reason = explain_outside_data(
            place.boundary, work_tree, git_dir, trusted=place.boundary.trusts_repository
        )
        if reason and argv[position] != "version":
            raise RefusedError(reason)
    _subcommand(inner, argv[position])
    judged.lists = inner.lists


def _subcommand(judged: JudgedCommand, name: str) -> None:
    match name:
        case "branch":
            _branch(judged)
        case "tag":
            _tag(judged)
        case "stash":
            _stash(judged)
        case "remote":
            _remote(judged)
        case "config":
            _config(judged)
        case "reflog":
            _reflog(judged)
        case "worktree":
            _exactly(judged, {("list",), ("list", "--porcelain"), ("list", "-v")})
        case "submodule":
            _exactly(judged, {(), ("status",), ("status", "--recursive"), ("summary",)})
        case "notes":
            _exactly(judged, {("list",), ("list", "HEAD")})
        case "bisect":
            _exactly(judged, {("log",)})
        case "var":
            _exactly(judged, {(name,) for name in _VARIABLES})
        case "help":
            _exactly(judged, {()})
        case "symbolic-ref":
            _exactly(judged, {("HEAD",), ("--short", "HEAD"), ("-q", "HEAD"), ("--short", "-q", "HEAD")})
        case _ if f"git {name}" in read_entries("judges.options"):
            _plain(judged, name)
        case _:
            raise RefusedError(f"git {name} is not known to only read")


def _plain(judged: JudgedCommand, name: str) -> None:
    given = parse(judged, table(f"git {name}").options)
    _check_values(judged, given)
    check_shown_secrets(judged, name, given)
    operands = given.operands
    if name == "grep" and not given.has("-e", "-f"):
        if not operands:
            raise RefusedError("git grep without a pattern")
        operands = operands[1:]
    if name == "diff" and (given.has("--no-index") or _outside_work_tree(judged, operands)):
        check_diff(judged, operands, shows=True)
    if name in ("rev-parse", "for-each-ref", "check-attr") and given.after_dashes == 0:
        operands = tuple(operand for operand in operands if operand.startswith("/"))
    _judge_operands(judged, operands)
    _take_up(judged, name, given, operands)


def _outside_work_tree(judged: JudgedCommand, operands: tuple[str, ...]) -> bool:
    """Tell whether git diff compares its operands like diff, because one lies in no working tree."""
    cwd = judged.place.boundary.cwd
    work_tree, _ = repository_around(cwd)
    paths = (os.path.normpath(os.path.join(cwd, operand)) for operand in operands)
    return not work_tree or not all(is_beneath(path, work_tree) for path in paths)


def _take_up(judged: JudgedCommand, name: str, given: Given, operands: tuple[str, ...]) -> None:
    """Check the content `git grep` may show, and set the names that it, ls-files and diff pass on."""
    filters: list[Filter] = []
    if not given.has("-o", "--others", "-i", "--ignored", "--untracked", "--recurse-submodules"):
        filters.append(_tracked_filter(judged.place.boundary.cwd))
    if name == "grep":
        patterns = tuple(values(given, "-e")) if given.has("-e", "-f") else given.operands[:1]
        unsure = given.has("-v", "--invert-match", "-f", "--not") or _dialect_is_set(judged, given)
        expression = None if unsure else search_expression(patterns, dialect_of(judged, given, "basic"))
        roots, named = _searched(judged, operands, is_dashed=given.after_dashes > 0)
        passing = (*filters, *([named] if named else ()))
        check_search(judged, roots, expression, passing)
        pathspecs = tuple(word for word in operands if given.after_dashes or not _REVISION.fullmatch(word))
        check_hunt(judged, roots or pathspecs, patterns, expression, passing)
        found = content_filter(expression)
        filters.extend([found] if found else [])
        _check_searched_trees(judged, given)
    if name == "ls-files":
        named = any_of(map(_pathspec, operands))
        filters.extend([named] if named else [])
    if name == "ls-files" or (name in ("grep", "diff") and given.has("-l", "--name-only")):
        # Names begin with the folders asked for; without one, or by a pattern, with anything.
        plain = name == "ls-files" and all(
            re.fullmatch(r"[^-:*?\[][^*?\[]*", operand) for operand in operands
        )
        separated = given.has("-z", "--null")
        judged.lists = Feed((), anchored=plain and bool(operands), nul=separated, filters=tuple(filters))


def _searched(
    judged: JudgedCommand, operands: tuple[str, ...], *, is_dashed: bool
) -> tuple[tuple[str, ...], Filter | None]:
    """Return the folders that `git grep` searches, and what its patterns for paths leave of them. Pathspecs
    with magic (`:/`, `:!x`), patterns and `..` may stand for any file of the working tree."""
    if all(re.fullmatch(r"(?!:)(?:(?!\.\.)[^*?\[\\])*", operand) for operand in operands):
        return (operands if is_dashed else ()), None
    work_tree, _ = repository_around(judged.place.boundary.cwd)
    is_plain = is_dashed and not any(".." in operand for operand in operands)
    return (work_tree or ".",), any_of(map(_pathspec, operands)) if is_plain else None


def _check_searched_trees(judged: JudgedCommand, given: Given) -> None:
    """Refuse `git grep` in revisions that hold secret files. Deleted ones are in no folder, and it says in
    which a pattern occurs even where their diffs are switched off."""
    _, git_dir = repository_around(judged.place.boundary.cwd)
    named = _revisions("grep", given) if git_dir else ()
    objects = Objects(git_dir) if named else None
    narrowed = _narrowing(judged, given)
    for word in named:
        if objects is None:
            continue
        # Of `:/text`, `@{-1}` and their like only git knows what they name.
        if not re.fullmatch(r"[\w./-]+", word) or objects.kinds(split_path(word)[0]):
            check_tree_search(judged, word, narrowed)
    if given.has("--cached"):
        check_index_search(judged, narrowed)


def _dialect_is_set(judged: JudgedCommand, given: Given) -> bool:
    """Tell whether a configuration chooses the dialect of git grep's patterns, where no option does."""
    if given.has(*_DIALECTS):
        return False
    boundary = judged.place.boundary
    return may_set(boundary.cwd, boundary.home, (b"patterntype", b"extendedregexp"))


def _tracked_filter(cwd: str) -> Filter:
    """Return a filter for files that git knows. Of imagined files, it may know those that are not hidden."""
    work_tree, git_dir = repository_around(cwd)

    def is_tracked(file: Candidate) -> bool:
        if file.text is not None:
            return no_hidden(file)
        if not work_tree:
            return bool(git_dir)
        return may_be_tracked(git_dir, os.path.relpath(file.path, work_tree))

    return is_tracked


def _pathspec(operand: str) -> Filter | None:
    """Return the files an operand stands for: a pattern, a folder or a file."""
    if operand.startswith(":"):
        return None
    return any_of((glob_filter(operand, on_path=True), glob_filter(f"{operand.rstrip('/')}/*", on_path=True)))


def _check_values(judged: JudgedCommand, given: Given) -> None:
    """Refuse signature formats, which run gpg, which writes to its own folder; and `-L 1,5:path`, which
    prints a file."""
    shows_ranges = not judged.argv[0].endswith(("blame", "annotate"))
    for name, value in given.options:
        if name == "--diff-merges" and value not in _DIFF_MERGES:
            raise RefusedError(f"git --diff-merges={value} may merge again, which runs merge drivers")
        if name == "-L" and value and shows_ranges:
            judged.read(value.rpartition(":")[2])
        sorts = name == "--sort" and value and re.search(r"signature", value)
        if value and (sorts or re.search(r"%[-+ ]?G|%\(\*?(?:contents:)?signature", value)):
            raise RefusedError("git formats with signatures start gpg")
        if name == "--exclude-per-directory" and value != ".gitignore":
            raise RefusedError(f"git reads {value} of every folder, wherever links of that name lead")
        if name == "--notes" and value:
            raise RefusedError("git notes may be the content of any file")
        if value and re.search(r"%\(\*?raw(?!:size)", value):
            raise RefusedError("git formats with raw objects show the content of any file")
        if name in ("-S", "-G") and value and hunts(value):
            raise RefusedError("it searches the history for secrets")
    if shows_ranges and given.has("-S"):  # of blame it names a file
        check_history_search(judged, _narrowing(judged, given))


def _narrowing(judged: JudgedCommand, given: Given) -> tuple[str, ...]:
    """Return the pathspecs that keep a search of the history to plain files and folders; none where one may
    stand for others. Before the dashes git takes what is there for a path."""
    if given.has("--follow", "--full-diff"):  # these look at further files
        return ()
    first = len(given.operands) - given.after_dashes
    cwd = judged.place.boundary.cwd
    paths = tuple(
        operand
        for place, operand in enumerate(given.operands)
        if place >= first or os.path.lexists(os.path.join(cwd, operand))
    )
    plain = all(re.fullmatch(r"[^:*?\[\\]+", path) for path in paths)
    return paths if plain else ()


def _judge_operands(judged: JudgedCommand, operands: tuple[str, ...]) -> None:
    """Judge operands, which may be a revision, `revision:path` or a path: whatever could be a path is judged
    as one."""
    for operand in operands:
        text = operand
        if text.startswith(":"):  # pathspec magic, or a path in the index
            text = re.sub(r"\A:(?:\([\w,]*\)|[0-3]:|[/!^]*)", "", text)
            judged.read(text or ".")
        elif ":" not in text:
            judged.read(text or ".")
        for path in paths_within(text):
            judged.read(path or ".")


def _exactly(judged: JudgedCommand, shapes: set[tuple[str, ...]]) -> None:
    if judged.argv[1:] not in shapes:
        raise RefusedError(f"{' '.join(judged.argv)} is not known to only read")


def _branch(judged: JudgedCommand) -> None:
    given = parse(judged, table("git branch").options)
    _check_values(judged, given)
    # Before git 2.20, -l made the branch's log instead of listing.
    listing = given.has("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
    if given.operands and not listing:
        raise RefusedError("git branch with a name makes a branch")


def _tag(judged: JudgedCommand) -> None:
    given = parse(judged, table("git tag").options)
    _check_values(judged, given)
    listing = given.has(
        "-l", "--list", "-n", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"
    )
    if given.operands and not listing:
        raise RefusedError("git tag with a name makes a tag")


def _inner(judged: JudgedCommand, options: str) -> Given:
    """Return the options after a second subcommand."""
    return parse(judged, options, start=2)


def _stash(judged: JudgedCommand) -> None:
    action = judged.argv[1] if len(judged.argv) > 1 else ""
    if action == "list":
        given = _inner(judged, table("git log").options)
        _check_values(judged, given)
        check_shown_secrets(judged, "log", given)
        _judge_operands(judged, given.operands)
    elif action == "show":
        given = _inner(judged, table("@git-diff").options)
        _check_values(judged, given)
        boundary = judged.place.boundary
        # Without options it shows numbers, unless the configuration says otherwise; with any, a patch.
        shows_patch = given.options or may_set(boundary.cwd, boundary.home, (b"showpatch",))
        check_shown_secrets(judged, "stash show" if shows_patch else "log", given)
        _judge_operands(judged, given.operands)
    else:
        raise RefusedError(f"git stash {action} changes files")


def _remote(judged: JudgedCommand) -> None:
    rest = judged.argv[1:]
    if rest in ((), ("-v",), ("--verbose",), ("show",)):
        return
    if rest[0] == "get-url" and all(re.fullmatch(r"--all|--push|\w[\w.-]*", word) for word in rest[1:]):
        return
    raise RefusedError(f"git remote {rest[0]} may change remotes or use the network")


def _reflog(judged: JudgedCommand) -> None:
    action = judged.argv[1] if len(judged.argv) > 1 else ""
    if action in ("expire", "delete", "drop", "write", "exists"):
        raise RefusedError(f"git reflog {action} is not known to only read")
    given = parse(judged, table("git log").options, start=2 if action in ("show", "list") else 1)
    _check_values(judged, given)
    check_shown_secrets(judged, "log", given)
    _judge_operands(judged, given.operands)


def _config(judged: JudgedCommand) -> None:
    rest = list(judged.argv[1:])
    if rest[:1] == ["get"]:
        rest.pop(0)
    if rest[:1] == ["--get-regexp"]:
        _config_pattern(judged, rest[1:])
        return
    given = parse(judged, table("git config").options, start=len(judged.argv) - len(rest))
    if len(given.operands) != 1 or not _CONFIG_KEY.fullmatch(given.operands[0]):
        raise RefusedError("git config that may write, or print everything")
    if _SECRET_KEY.search(given.operands[0]):
        raise RefusedError(f"git config prints {given.operands[0]}, which may be a secret")


def _config_pattern(judged: JudgedCommand, rest: list[str]) -> None:
    if len(rest) != 1 or not _CONFIG_PATTERN.fullmatch(rest[0]):
        raise RefusedError("git config --get-regexp may print everything")
