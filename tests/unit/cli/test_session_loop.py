"""A session that fails while it opens leaves nothing running; a command that fails says why."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from pathlib import Path

import pytest

from buddy.app.launch import find_launch, read_settings
from buddy.cli.arguments import parse
from buddy.cli.front import Front
from buddy.cli.session_loop import describe_failure, run_session
from buddy.repl.early import Controller, LateCompleter
from buddy.repl.view.blocks import Block
from buddy.repl.view.state import NO_SESSION
from tests.support.program import Program
from tests.support.repl import Paper


class Refusing(Paper):
    """A surface that takes nothing."""

    def print(self, *blocks: Block) -> None:
        raise RuntimeError("the screen takes nothing")


async def test_a_sitting_that_fails_while_it_opens_ends_what_it_started(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9", settings={"api": {"api_key_env": "NO_SUCH_KEY"}})
    program.files(main__py="print(1)\n")
    options = parse([])
    with contextlib.chdir(program.repo):
        launch = find_launch(options, {**os.environ, **program.variables()})
    front = Front(Refusing(), Controller(NO_SESSION, print), LateCompleter(), launch.environment)
    front.gone.set()
    with pytest.raises(RuntimeError, match="takes nothing"):
        await run_session(options, launch, read_settings(launch, options), front, "", "")
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_sitting_without_a_key_for_sessions_says_what_helps(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9")
    program.files(main__py="print(1)\n")
    (program.home / ".local").write_text("no folder")
    options = parse([])
    with contextlib.chdir(program.repo):
        launch = find_launch(options, program.variables())
    paper = Paper()
    front = Front(paper, Controller(NO_SESSION, print), LateCompleter(), launch.environment)
    front.gone.set()
    await run_session(options, launch, read_settings(launch, options), front, "", "")
    assert "the key that signs sessions can't be made there; set XDG_STATE_HOME" in paper.text()
    assert front.switch_to is None


@pytest.mark.parametrize(
    ("error", "is_bug"),
    [
        (OSError(errno.EMFILE, "Too many open files"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (OSError(errno.EBADF, "Bad file descriptor"), True),
        (ValueError("no"), True),
    ],
)
def test_a_shortage_of_the_machine_is_no_bug(error: Exception, is_bug: bool) -> None:
    words = describe_failure(error)
    assert ("this is a bug" in words) is is_bug
    assert str(error.args[-1]) in words
