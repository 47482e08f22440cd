"""Settings of git that name programs: files are read as git reads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from buddy.safety.git_programs import parse_settings, programs_of_git

HOOKS = "[core]\n\thooksPath = {}\n"
READ_AS_GIT = [
    "[core]\n\thooksPath = .githooks\n",
    HOOKS.format(".githooks # ours"),
    HOOKS.format('".githooks"  ; ours'),
    HOOKS.format('.git"hooks"'),
    HOOKS.format('"a # b"'),
    HOOKS.format(r"a\"b"),
    HOOKS.format(r"a\tb\\c"),
    HOOKS.format("a\\\nb"),
    HOOKS.format("a \\\n  b   "),
    HOOKS.format('"  a  " '),
    HOOKS.format("a  b c"),
    "\ufeff[core]\n\thooksPath = .githooks\n",
    "# a comment \\\n[core]\n\thooksPath = x\n",
    "[core] hooksPath = on/one/line\n",
    '[filter "a b"]\n\tclean = tools/clean.sh %f ; not this\n',
    "[core]\n\tbare\n\thooksPath = x\n",
    "[core]\r\n\thooksPath = crlf\r\n",
    "[include]\n\tpath = more # here\n",
    '[alias]\n\tx = !f() { echo \\"$1\\"; }; f\n',
    "[core]\n;hooksPath = no\n#hooksPath = no\n\thooksPath = yes\n",
    "[core]\n\thooksPath =\n\teditor = vi\n",
]


@pytest.mark.parametrize("text", READ_AS_GIT)
def test_a_file_is_read_as_git_reads_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(text.encode())
    listed = subprocess.run(
        ["git", "config", "-z", "--list", "--no-includes", "--file", str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    pairs = [entry.split("\n", 1) for entry in listed.split("\0") if "\n" in entry]
    expected = [(name.lower(), value) for name, value in pairs]
    assert list(parse_settings(path.read_text("utf-8-sig"))) == expected


def test_a_value_with_a_nul_names_nothing_and_ends_nothing(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / "tools").mkdir()
    (root / "tools" / "clean.sh").write_text("")
    with open(root / ".git" / "config", "ab") as config:
        config.write(b'[alias]\n\tx = "!a/b\0c"\n[filter "x"]\n\tclean = tools/clean.sh\n')
    found = programs_of_git((os.path.realpath(root),), str(tmp_path))
    assert found == {os.path.realpath(root / "tools" / "clean.sh")}
