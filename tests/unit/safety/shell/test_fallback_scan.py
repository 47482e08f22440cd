"""The quick ways through long command lines say the same as the slow ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.safety.shell.fallback_scan import scavenge
from tests.support.shell_project import shell_project

PIECES = st.sampled_from(
    [
        "rm",
        "-rf",
        "/",
        " ",
        "  ",
        "\t",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "(",
        ")",
        '"',
        '""',
        "a=1",
        "if",
        "é",
        "{",
        "2",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_a_text_without_quotes_is_scavenged_alike_both_ways(text: str) -> None:
    with_a_quote = scavenge(f"{text}\n'")  # the slow way, and one command more: an empty word
    assert scavenge(text) == with_a_quote[:-1]
    assert with_a_quote[-1] == ("",)


@pytest.mark.parametrize("piece", ["''", '""', "$HOME", "\\a", "$'\\t'", "["])
def test_a_word_of_a_thousand_pieces_is_asked_about_and_still_looked_through(
    tmp_path: Path, piece: str
) -> None:
    project = shell_project(tmp_path)
    few, many = (project.analyse(f"echo {piece * count} ; rm -rf ~") for count in (10, 790))
    assert (few.level, many.level) == ("ask", "ask")
    assert many.reason in ("more than 600 pieces of words", "more than 40 opening brackets")
    assert many.catastrophic == "rm of the home folder (~)"
    assert few.catastrophic == f"rm of the home folder ({project.home})"
    assert project.analyse(f"echo {piece * 10}").read_only


def test_letters_of_other_alphabets_are_one_piece(tmp_path: Path) -> None:
    project = shell_project(tmp_path)
    assert project.analyse("echo " + "éжあ" * 1000).read_only
    assert project.analyse("grep -r жук src").commands[0].argv == ("grep", "-r", "жук", "src")
