"""Searches that would show secrets wherever they run: judged without looking at what lies there today.

A folder may be empty while a command is judged and hold a `.env` when it runs. So every search over a whole
tree is also held against secret files that might be there.
"""

from __future__ import annotations

import os
import re

from buddy.agent.pattern import pattern
from buddy.safety.paths import is_beneath
from buddy.safety.shell.names import words
from buddy.safety.shell.picks import Candidate, Filter
from buddy.safety.shell.place import JudgedCommand, RefusedError

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
