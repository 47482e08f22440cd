"""The data files of the shell analysis, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from buddy.safety.shell.programs import names
from buddy.safety.shell.programs.files import ARCHIVES, FILES
from buddy.safety.shell.programs.names import read_entries, word_list, words
from buddy.safety.shell.programs.options import known_options, table
from buddy.safety.shell.programs.packages import PACKAGES
from buddy.safety.shell.programs.search import SEARCH
from buddy.safety.shell.programs.system import SYSTEM
from buddy.safety.shell.programs.text import AWK, TEXT

FOLDER = Path(names.__file__).parent
TABLES = ("programs.options", "judges.options")
OPTION = re.compile(r"-NUM|-[\w.]+|-\w(:(num|text|read|name)|\?)|--[a-z][\w-]*(:(num|text|read|name)|\?)?")


@pytest.mark.parametrize("file", [*TABLES, "words.lists"])
def test_every_line_is_a_comment_an_entry_or_goes_on(file: str) -> None:
    lines = (FOLDER / file).read_text().splitlines()
    assert lines[0].startswith("# ")
    odd = [line for line in lines if not re.fullmatch(r"|# .*|    \S.*|@?\w[^:]*:( \S.*)?", line)]
    assert odd == []
    assert [line for line in lines if len(line) > 110] == []
    headers = [line.partition(":")[0] for line in lines if re.match(r"[@\w]", line)]
    entries = [name for header in headers for name in header.split(", ")]
    assert len(entries) == len(set(entries)) == len(read_entries(file)) > 20


@pytest.mark.parametrize("file", TABLES)
def test_every_option_of_every_table_is_understood(file: str) -> None:
    for name in read_entries(file):
        found = table(name, file)
        odd = [word for word in found.options.split() if not OPTION.fullmatch(word)]
        assert odd == [], name
        assert found.operands in ("read", "name", "text", "none"), name
        assert 0 <= found.at_least <= found.at_most, name
        twice = [word for word in found.options.split() if word.startswith("--")]
        assert set(known_options(found.options)) >= {re.split(r"[:?]", word)[0] for word in twice}, name


def test_a_table_names_its_operands_and_takes_up_another() -> None:
    seq = table("seq", "programs.options")
    assert (seq.operands, seq.at_least, seq.at_most) == ("text", 1, 3)
    assert table("git log").options == f"{table('@git-list').options} {table('@git-diff').options}"
    cat = table("cat", "programs.options")
    assert (cat.operands, cat.at_least, cat.at_most) == ("read", 0, 10_000)


def test_a_program_stands_in_one_place() -> None:
    """A program with its own judge must not pass by its options alone; a subcommand is no program."""
    special = {*FILES, *ARCHIVES, *TEXT, *SEARCH, *SYSTEM, *PACKAGES, *AWK}
    special |= words("sed jq git find env timeout nice stdbuf builtin command time xargs bash sh")
    plain = read_entries("programs.options")
    assert len(special) > 60
    assert special & plain.keys() == set()
    assert read_entries("judges.options").keys() & plain.keys() == set()
    assert [name for name in plain if not re.fullmatch(r"[a-z][a-z0-9_]*", name)] == []


def test_a_list_of_words_nobody_wrote_is_an_error() -> None:
    assert "curl" in word_list("network")
    with pytest.raises(KeyError):
        word_list("no such list")
