"""`!` commands that need the terminal say at once what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.repl.render.text import plain
from buddy.repl.user_shell import terminal_program
from buddy.repl.view.status import key_help
from tests.support.repl import open_repl


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("vi main.py", "vi"),
        ("EDITOR=x /usr/bin/vim a", "vim"),
        ("sudo nano /etc/hosts", "nano"),
        ("htop", "htop"),
        ("git commit", "git commit"),
        ("git commit -a", "git commit"),
        ("git rebase -i HEAD~3", "git rebase -i"),
        ("git add -p", "git add -p"),
        ("git commit -am wip", ""),
        ("git commit --amend --no-edit", ""),
        ("git commit --message=x", ""),
        ("git log", ""),
        ("git rebase main", ""),
        ("vim --version", ""),
        ("top -bn1", ""),
        ("less main.py", ""),
        ("ls vi", ""),
        ("echo 'vi", ""),
        ("vi a | cat", ""),
        ("A=1", ""),
        ("", ""),
    ],
)
def test_RU_A10_a_command_that_needs_the_terminal_is_known(command: str, program: str) -> None:
    assert terminal_program(command) == program


async def test_RU_A10_an_editor_is_not_started_on_a_pipe_and_the_way_is_told(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        await repl.said(
            "!vi main.py", "vi needs the terminal: press Ctrl+Z, run it in your shell, then type fg"
        )
        assert repl.context.own.rows() == ()


def test_RU_16_the_key_help_says_what_shift_enter_does() -> None:
    text = "\n".join(plain(line) for line in key_help(200, 40))
    assert "Alt+Enter Ctrl+J \\Enter  newline (Shift+Enter sends in most terminals)" in text
