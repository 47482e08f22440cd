"""Arguments, commands and files in the text of command files."""

from __future__ import annotations

import pytest

from buddy.extend.command_text import PlainPiece, ShellPiece, fill_in, gemini_pieces, pieces_of, split_words


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("fix $ARGUMENTS now", "a b", "fix a b now"),
        ("fix $@", "a b", "fix a b"),
        ("$1 and $2", "'a b' c", "a b and c"),
        ("$1, $10", "x", "x, "),
        ("${1:-main} ${2:-}", "", "main "),
        ("${1:-main}", "dev", "dev"),
        ("${ARGUMENTS:-all}", "", "all"),
        ("$ARGUMENTS[1]", "a b", "b"),
        ("costs $0 and $HOME", "", "costs $0 and $HOME"),
        ("no place", "words", "no place\n\nARGUMENTS: words"),
        ("no place", "", "no place"),
        ("$1", "$2 $1", "$2"),
    ],
)
def test_arguments_take_their_places_once(body: str, arguments: str, text: str) -> None:
    assert fill_in(body, arguments) == text


def test_quotes_that_do_not_close_are_split_at_blanks() -> None:
    assert split_words("it's fine") == ["it's", "fine"]


def test_commands_are_found_in_lines_and_blocks_and_not_elsewhere() -> None:
    text = "a !`git log`\nb`no`! c!`no`\n```!\nmake\ntest\n```\nend"
    assert pieces_of(text) == (
        PlainPiece("a "),
        ShellPiece("git log"),
        PlainPiece("\nb`no`! c!`no`\n"),
        ShellPiece("make\ntest"),
        PlainPiece("\nend"),
    )


def test_geminis_arguments_are_quoted_in_commands() -> None:
    pieces = gemini_pieces("Look at {{args}} in @{docs/a b.md}: !{grep {{args}} {x}}", "a; rm -rf /")
    assert pieces == (
        PlainPiece("Look at a; rm -rf / in @docs/a\\ b.md: "),
        ShellPiece("grep 'a; rm -rf /' {x}"),
    )
    assert gemini_pieces("Explain", "this")[-1] == PlainPiece("\n\nthis")
    assert gemini_pieces("open !{never closed", "") == (PlainPiece("open !{never closed"),)
