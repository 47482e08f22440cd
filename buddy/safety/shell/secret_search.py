"""Refusal of searches that would show secrets, with a bounded scan of the searched folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from buddy.agent.lazy_regex import pattern
from buddy.safety.git_repository import (
    files_that_wait,
    indexed_paths,
    odd_ignore_files,
    repository_around,
    tracked_paths,
)
from buddy.safety.paths import is_beneath
from buddy.safety.protected import is_plain_name
from buddy.safety.sanitise import visible
from buddy.safety.shell.context import JudgedCommand, RefusedError, is_public
from buddy.safety.shell.file_selection import Candidate, Filter, content_filter, hunts_secrets
from buddy.safety.shell.git_history import paths_in_history
from buddy.safety.shell.git_objects import split_path
from buddy.safety.shell.programs.names import words
from buddy.safety.shell.result import UNRESOLVED

_HIDDEN = (".env", ".env.production", ".npmrc")
_SHOWN = ("server.pem", "id_rsa", "secrets.yml", "credentials.json", "config/secrets.toml", "prod.env")
_SECRET_FOLDERS = words("config conf configs secrets secret credentials keys certs deploy env envs private")
_OWNERS = (
    "api|app|client|auth|aws|db|database|mysql|postgres|pg|redis|smtp|mail|root|admin|user|my|the|jwt|oauth"
    "|github|gitlab|gh|slack|stripe|openai|anthropic|google|azure|gcp|docker|npm|pypi|session|access|secret"
    "|private|master|signing|encryption|ssh|gpg|deploy|bot|bearer|refresh|webhook|django|flask|rails"
)
_NAMES = pattern(
    rf"""(?ix)
    (?<![a-z])(?<![a-z]_)(?<!import\ )(?<!from\ )(?:(?:{_OWNERS})[\W_]{{0,6}}){{0,3}}(?:
        (?:api|access|secret|private|auth|encryption|signing|ssh|gpg|deploy|master)[\W_]{{0,6}}keys?(?:[\W_]?id)?
        |(?:{_OWNERS})[\W_]{{0,6}}tokens?
        |secrets?|pass\(?(?:word|wd|phrase)s?|credentials?|creds
    )(?![a-z(])(?!_[a-z])(?!\\\()
    |(?:tokens?|pwd)\W{{0,6}}[=:]|_authtoken|bearer\W{{0,6}}\[
    |begin\b.{{0,24}}(?:key|private)|private\W{{0,6}}key
    |(?<![a-z])(?:akia|asia(?=[\[\\0-9])|sk[-_](?=live|test|proj|ant|[\[\\.(]|\Z)|gh[pousr]_|github_pat_|xox[a-z\[]
        |glpat|eyj(?=[\[\\.a-z0-9]|\Z)|ya29|aiza|pypi-|(?:npm|hf)_(?=[\[\\]|\Z)|aws_(?:secret|access|session|\Z))
    """
)
"""What a pattern says that looks for secrets, as words of their own: not `reset_password(`, not Tokenizer."""
_LOUD = pattern(
    r"(?<![A-Za-z0-9_])[A-Z0-9_]*(?:KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PWD|CREDENTIALS?)(?![A-Za-z])"
)
_NO_SECRET = pattern(
    r"(?:PRIMARY|FOREIGN|CACHE|SORT|PARTITION|MAX|MIN|NUM|COUNT|CSRF|NEXT|EOF|UNIQUE|SSH_HOST)_?[A-Z_]*"
)
_FAINT = pattern(r"(?i)(?<![a-z_])(?:tokens?|auth|bearer)(?![a-z_])")
"""What only a search of hidden files too looks for secrets with."""
_ONE_LETTER = pattern(r"(?i)\[([a-z])\1?\]")

_SAMPLES = tuple(
    "".join(pieces)  # in pieces, so that nobody takes this file for one with secrets
    for pieces in (
        ("API_KEY", "=sk", "-9q8w7g6z5k4j3h2v1b0n", "m8g7z6q5w4k3j"),
        ("SECRET", "_KEY=", "q7q9z8w6", "k5j4h3v2"),
        ("AWS_ACCESS_KEY_ID", "=AK", "IAQ7Z8Q9W6K5J4H3V2"),
        ("GITHUB_TOKEN", "=gh", "p_q9w8g7z6k5j4h3v2b1n0", "m9q8w7g6z5k4j3h2"),
        ("password", ": hunter2"),
        ("-----BEGIN", " RSA PRIVATE KEY-----"),
    )
)
_ASSIGNED = 4
"""How many of them a variable is given: a pattern that fits all of these shows the whole of such a file."""
_ORDINARY = (
    "import os  # AWS, API, ID, RSA, GITHUB, BEGIN, PRIVATE, ACCESS, universal",
    "def main(arguments: list[str]) -> int:",
    "    for key, value in items.keys():  # TODO: tokenize, authorize, keyboard",
    "        pass",
    "begin; private static final PrimaryKey id; end; return access(aws_region)",
    "MAX_RETRIES = 3",
    "const PORT: string = process.env.PORT || config.host;",
    '  "version": "1.2.3",',
    "https://github.com/api/a-b_c?d=e",
    "ERROR 404 2024-01-01 at line 12, function x(y) { return a.b; }",
)
_TEXT = "\n".join(_SAMPLES)


def check_hunt(
    judged: JudgedCommand,
    roots: tuple[str, ...],
    patterns: tuple[str, ...],
    expression: re.Pattern[str] | None,
    filters: tuple[Filter, ...] = (),
) -> None:
    """Refuse a search over a whole tree for what secrets look like; one that takes up hidden files also when
    it shows every line. `expression` is None when what the patterns find cannot be told."""
    if not is_wide(judged, roots):
        return
    loud = any(map(hunts, patterns)) or _singles_out(expression, patterns)
    if loud and (_passes(filters, _HIDDEN) or _passes(filters, _SHOWN)):
        raise RefusedError("it searches the whole folder for secrets")
    if not _passes(filters, _HIDDEN):
        return
    if expression is None or all(map(expression.search, _SAMPLES[:_ASSIGNED])):
        raise RefusedError("it shows every line of hidden files, which may hold secrets")
    if any(map(_FAINT().search, patterns)):
        raise RefusedError("it searches hidden files for secrets")


def check_history_search(judged: JudgedCommand, pathspecs: tuple[str, ...]) -> None:
    """Refuse a search of the history that would look into secret files, those deleted since too: which
    commits it names tells whether a guess at their content is right, so that enough of them spell it out.
    `pathspecs` narrow it."""
    cwd = judged.place.boundary.cwd
    work_tree, git_dir = repository_around(cwd)
    if not git_dir:
        return
    check_index_search(judged, pathspecs)
    history = paths_in_history(work_tree)
    if history is None:
        raise RefusedError("it searches the whole history, which may hold secret files; narrow it: -- FOLDER")
    _check_tracked(judged, work_tree, history, pathspecs)


def check_index_search(judged: JudgedCommand, pathspecs: tuple[str, ...]) -> None:
    """Refuse a search of the index that would look into secret files, which the working tree may lack."""
    work_tree, git_dir = repository_around(judged.place.boundary.cwd)
    tracked = indexed_paths(git_dir) if work_tree else None
    if tracked is None:
        raise RefusedError("it searches the content of all tracked files, and which those are can't be told")
    _check_tracked(judged, work_tree, tracked, pathspecs)


def check_tree_search(judged: JudgedCommand, revision: str, pathspecs: tuple[str, ...]) -> None:
    """Refuse a search of an older state that would look into its secret files."""
    work_tree, _ = repository_around(judged.place.boundary.cwd)
    # `:/text` is the newest commit that says so, not a path.
    base, folder = (revision, None) if revision.startswith(":") else split_path(revision)
    paths = paths_in_history(work_tree, base) if work_tree else None
    if paths is None:
        raise RefusedError(f"it searches {visible(revision)}, which may hold secret files")
    specs = pathspecs or ((folder,) if folder else ())
    _check_tracked(judged, work_tree, paths, specs if not (folder and pathspecs) else ())


def _check_tracked(
    judged: JudgedCommand, work_tree: str, paths: Iterable[str], pathspecs: tuple[str, ...]
) -> None:
    roots = _roots(judged, pathspecs)
    for name in paths:
        path = os.path.join(work_tree, name)
        if _may_be_secret(name) and (not roots or any(is_beneath(path, root) for root in roots)):
            judged.read(path)


def _roots(judged: JudgedCommand, pathspecs: tuple[str, ...]) -> tuple[str, ...]:
    cwd = judged.place.boundary.cwd
    return tuple(os.path.normpath(os.path.join(cwd, path)) for path in pathspecs)


def check_everything(judged: JudgedCommand, roots: tuple[str, ...], filters: tuple[Filter, ...]) -> None:
    """Refuse to show the content of all files beneath a whole tree, hidden ones too."""
    if is_wide(judged, roots) and _passes(filters, _HIDDEN):
        raise RefusedError("it shows every file of the folder, hidden ones too")


def is_wide(judged: JudgedCommand, roots: tuple[str, ...]) -> bool:
    """Tell whether the folders hold the working directory, or one whose name says that it holds secrets."""
    cwd = judged.place.boundary.cwd
    globbed = {judged.argv[place] for place in judged.globbed if place < len(judged.argv)}
    for root in roots or (".",):
        path = os.path.normpath(os.path.join(cwd, root))
        if is_beneath(cwd, path) or root in globbed or not root.strip("./*?"):
            return True
        if os.path.basename(path).lower() in _SECRET_FOLDERS:
            return True
    return False


def hunts(searched: str) -> bool:
    """Tell whether a pattern by itself looks for secrets."""
    text = _ONE_LETTER().sub(r"\1", searched)
    if _NAMES().search(text):
        return True
    return any(not _NO_SECRET().match(found.group()) for found in _LOUD().finditer(text))


def _singles_out(expression: re.Pattern[str] | None, patterns: tuple[str, ...]) -> bool:
    """Tell whether a pattern, however it is written, matches secrets and no ordinary line. A pattern with
    capitals is matched case-sensitively."""
    if expression is None:
        return False
    loud = any(any(sign.isupper() for sign in re.sub(r"\\[A-Z]", "", one)) for one in patterns)
    flags = expression.flags & ~re.IGNORECASE if loud else expression.flags
    look = re.compile(expression.pattern, flags).search
    return any(map(look, _SAMPLES)) and not any(map(look, _ORDINARY))


def _passes(filters: tuple[Filter, ...], names: tuple[str, ...]) -> bool:
    files = (Candidate(f"/dev/null/{name}", name, _TEXT) for name in names)
    return any(all(test(file) for test in filters) for file in files)


MAX_ENTRIES = 10_000
INSTALLED = words(".git node_modules .venv venv site-packages __pycache__ .tox .mypy_cache .ruff_cache")


class TooManyError(RefusedError):
    """There are more files beneath a folder than the scan's limit."""


def check_links(judged: JudgedCommand, roots: tuple[str, ...], filters: tuple[Filter, ...] = ()) -> None:
    """Refuse when a link beneath the folders that comes through all filters leads somewhere that may not be
    read. Folders that links lead to are looked through as well: what follows one link follows the next."""
    for entry in _entries(judged, roots, follow=True):
        if entry.is_symlink() and all(test(_candidate(judged, entry)) for test in filters):
            judged.read(entry.path)


def check_ignore_files(judged: JudgedCommand, roots: tuple[str, ...], names: frozenset[str]) -> None:
    """Refuse where a file that says what a search leaves out is a pipe or a device, which the search would
    wait for, or a link of the workspace to what may not be read: the search prints lines of it."""
    cwd = judged.place.boundary.cwd
    work_tree, git_dir = repository_around(cwd)
    known = [root for root in roots or (".",) if UNRESOLVED not in root]
    waits, links = odd_ignore_files(cwd, known, names)
    waiting = [
        *waits,
        *(files_that_wait(cwd, work_tree, git_dir) if work_tree else ()),
    ]
    if waiting:
        raise RefusedError(f"{judged.argv[0]} would wait for {visible(waiting[0])}, a pipe or a device")
    for path in links:
        if any(is_beneath(path, tree) for tree in judged.place.boundary.trees):
            judged.read(path)


def check_special_files(judged: JudgedCommand, roots: tuple[str, ...]) -> None:
    """Refuse where a pipe or a device lies beneath the folders of a search that opens whatever it meets."""
    for entry in _entries(judged, roots, follow=True):
        if not (entry.is_file() or entry.is_dir()) and os.path.exists(entry.path):
            raise RefusedError(f"{judged.argv[0]} would wait for {visible(entry.path)}, a pipe or a device")


def check_secrets(
    judged: JudgedCommand, roots: tuple[str, ...], filters: tuple[Filter, ...] = (), *, follow: bool = False
) -> None:
    """Refuse when a secret file that comes through all filters lies beneath the folders; with `follow` also
    in folders that links lead to. What package managers put there is not looked through."""
    outside = [
        root
        for root in roots
        if UNRESOLVED not in root
        and is_public(os.path.realpath(os.path.join(judged.place.boundary.cwd, root)))
    ]
    if roots and len(outside) == len(roots):
        return  # what the system brings
    telling: dict[str, bool] = {}
    for entry in _entries(judged, roots, skip=INSTALLED, follow=follow):
        folder = entry.path[: -len(entry.name)]
        if folder not in telling:
            telling[folder] = _may_be_secret(os.path.relpath(folder, judged.place.boundary.cwd))
        if not (telling[folder] or not is_plain_name(entry.name)) or _is_folder(entry):
            continue
        candidate = _candidate(judged, entry)
        if all(test(candidate) for test in filters):
            judged.read(entry.path)


def _may_be_secret(path: str) -> bool:
    return not all(map(is_plain_name, path.replace("..", "").split("/")))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that goes round in circles
        return False


def _candidate(judged: JudgedCommand, entry: os.DirEntry[str]) -> Candidate:
    return Candidate(os.path.normpath(entry.path), os.path.relpath(entry.path, judged.place.boundary.cwd))


def check_search(
    judged: JudgedCommand,
    roots: tuple[str, ...],
    expression: re.Pattern[str] | None,
    filters: tuple[Filter, ...],
    *,
    follow: bool = False,
) -> None:
    """Refuse a search that may show lines of a secret file beneath the folders; with `follow` also in those
    that links lead to."""
    content = content_filter(expression)
    hunts = hunts_secrets(expression)
    try:
        passing = filters if hunts or content is None else (*filters, content)
        check_secrets(judged, roots, passing, follow=follow)
    except TooManyError:
        if hunts:
            raise


def check_names(judged: JudgedCommand, roots: tuple[str, ...], separators: str) -> None:
    """Refuse when a name would be split into pieces that may not be read: they are names of their own."""
    cwd = judged.place.boundary.cwd
    for entry in _entries(judged, roots):
        if not re.search(separators, entry.name):
            continue
        if re.search(r"['\"\\]", entry.name):
            raise RefusedError(f"quotes in the name {entry.name!r} would be taken away")
        for piece in re.split(separators, os.path.relpath(entry.path, cwd))[1:]:
            judged.read(piece)


def check_dashes(judged: JudgedCommand, program: str) -> None:
    """Refuse where a name in the working directory begins with a dash: listed without a folder in front, it
    would be an option."""
    cwd = judged.place.boundary.cwd
    names = os.listdir(cwd)
    work_tree, _ = repository_around(cwd)
    for path in (tracked_paths(work_tree) if work_tree else None) or ():
        if path.startswith(cwd + "/"):  # git lists what is deleted in the working tree, too
            names.append(path[len(cwd) + 1 :])
    odd = next((name for name in names if name.startswith("-")), "")
    if odd:
        raise RefusedError(f"the name {odd[:60]!r} would be an option of {program}")


def _entries(
    judged: JudgedCommand, roots: tuple[str, ...], skip: frozenset[str] = frozenset(), *, follow: bool = False
) -> Iterator[os.DirEntry[str]]:
    """Yield everything beneath the folders, depth first; with `follow` also the content of linked folders of
    the workspace, each once."""
    seen = 0
    linked: set[str] = set()
    cwd = judged.place.boundary.cwd  # found names are looked at where they were found
    pending = [os.path.join(cwd, root) for root in roots or (".",) if UNRESOLVED not in root]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_ENTRIES:
                        raise TooManyError("there are too many files to see where all of them lead")
                    yield entry
                    if entry.name in skip:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif follow and entry.is_symlink() and _is_folder(entry):
                        real = os.path.realpath(entry.path)
                        if real not in linked and _is_ours(judged, real):
                            linked.add(real)
                            pending.append(entry.path)
        except OSError:
            continue  # what cannot be listed cannot be followed either


def _is_ours(judged: JudgedCommand, real: str) -> bool:
    """Tell whether a folder lies in the workspace: links out of it are refused where they are read."""
    boundary = judged.place.boundary
    return any(is_beneath(real, root) for root in (boundary.root, *boundary.extra))
