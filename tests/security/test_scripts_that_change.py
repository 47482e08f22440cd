"""Approval of a command includes the scripts it names: one that changed since does not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from buddy.agent.messages import ToolMessage
from buddy.llm.scripted import Say, ScriptedCall
from tests.support.scripted_session import scripted_session
from tests.support.waiting import until

REFUSED = "changed after it was shown for approval; nothing was run. Read it and ask again."


async def answered(folder: Path, command: str, meanwhile: Callable[[Path], object]) -> tuple[bool, str]:
    """Return whether a command approved after an event ran, and the result the model got."""
    work = folder / "work"
    work.mkdir()
    for name in ("s.sh", "other.sh"):
        (work / name).write_text(f"echo {name} > ran\n")
        (work / name).chmod(0o755)
    (work / "link.sh").symlink_to("s.sh")
    arguments = msgspec.json.encode({"command": command}).decode()
    async with scripted_session(folder, ((ScriptedCall("run_shell", arguments),), (Say("ok"),))) as session:
        session.parts.policy.set_mode("ask")
        session.board.submit(1, "go")
        await until(session.board.inbox.waiting)
        request = session.board.inbox.waiting()[0].event
        meanwhile(work)
        session.board.inbox.answer(request.request_id, request.digest, "once")
        await session.board.wait(1)
        results = [one.text for one in session.board.task(1).history if isinstance(one, ToolMessage)]
    return (work / "ran").exists(), results[0]


def rewritten(work: Path) -> None:
    (work / "s.sh").write_text("echo another > ran\n")


def linked(work: Path) -> None:
    (work / "link.sh").unlink()
    (work / "link.sh").symlink_to("other.sh")


@pytest.mark.parametrize(
    ("command", "meanwhile", "named"),
    [
        ("bash s.sh", rewritten, "s.sh"),
        ("./s.sh", rewritten, "s.sh"),
        ("true; bash s.sh", rewritten, "s.sh"),
        ("bash link.sh", rewritten, "s.sh"),
        ("bash link.sh", linked, "s.sh"),
        ("bash s.sh", lambda work: (work / "s.sh").unlink(), "s.sh"),
        ("bash new.sh", lambda work: (work / "new.sh").write_text("echo new > ran\n"), "new.sh"),
    ],
)
async def test_ATTACK_F7_a_script_that_changed_before_the_answer_does_not_run(
    tmp_path: Path, command: str, meanwhile: Callable[[Path], object], named: str
) -> None:
    assert await answered(tmp_path, command, meanwhile) == (False, f"{named} {REFUSED}")


@pytest.mark.parametrize("command", ["bash s.sh", "./s.sh", "bash link.sh", "echo yes > ran"])
async def test_ATTACK_F7_what_stayed_as_it_was_shown_runs(tmp_path: Path, command: str) -> None:
    ran, result = await answered(tmp_path, command, lambda work: (work / "other.sh").write_text("exit 1\n"))

    assert ran
    assert REFUSED not in result
