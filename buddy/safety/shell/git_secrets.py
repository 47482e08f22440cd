"""Secret files in what git shows: attributes switch their diffs off, blobs by their hash are refused."""

from __future__ import annotations

import re

from buddy.safety.git_files import read_regular, repository_around
from buddy.safety.shell.git_options import LISTS_ONLY, SHOWS_CONTENT, SHOWS_DIFFS
from buddy.safety.shell.options import Given
from buddy.safety.shell.place import Judged, RefusedError

MAX_ATTRIBUTES_BYTES = 200_000
_HASH = re.compile(r"[0-9a-f]{4,64}")
_SHOWS_AGAIN = re.compile(rb"(?m)^[^#\n]*\s!?diff(?:=|\s|$)|^\s*\[attr\]|^[^#\n]*\s-binary(?:\s|$)")


def check_shown_secrets(judged: Judged, name: str, given: Given) -> None:
    """Refuse a subcommand that would show secret files in spite of the attributes it runs with. Raises
    `RefusedError`."""
    if name == "cat-file":
        _check_blob(given)
        return
    if not given.has(*SHOWS_CONTENT) and (name not in SHOWS_DIFFS or given.has(*LISTS_ONLY)):
        return
    if given.has("-a", "--text", "--binary"):
        raise RefusedError(f"git {name} would show secret files, too, whose diffs are switched off otherwise")
    work_tree, git_dir = repository_around(judged.place.boundary.cwd)
    for path in (f"{work_tree}/.gitattributes", f"{git_dir}/info/attributes") if git_dir else ():
        text = read_regular(path, MAX_ATTRIBUTES_BYTES)
        if len(text) == MAX_ATTRIBUTES_BYTES or any(map(_concerns_secrets, _SHOWS_AGAIN.finditer(text))):
            raise RefusedError(f"{path} switches diffs on, which may show secret files")


def _concerns_secrets(line: re.Match[bytes]) -> bool:
    """Whether a line of attributes may be about more than source files: a pattern for one ordinary ending is
    not."""
    pattern = line.group().split()[0] if line.group().split() else b""
    found = re.fullmatch(rb"(?:\S*/)?\*\.([a-z0-9]{1,8})", pattern)
    return found is None or found[1] in (
        b"env",
        b"pem",
        b"key",
        b"p12",
        b"pfx",
        b"jks",
        b"kdbx",
        b"ppk",
        b"tfvars",
    )


def _check_blob(given: Given) -> None:
    """A hash may be that of any version of any file; a revision alone is a commit, a tree or a tag."""
    for operand in given.operands[-1:]:
        if len(given.operands) > 1 or (given.has("-p") and _HASH.fullmatch(operand)):
            raise RefusedError(f"{operand} may be the content of any file")
