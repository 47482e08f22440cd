"""Commands of another machine that write without end."""

from __future__ import annotations

import re
from pathlib import Path

from buddy.tools.jobs import read_job, stop_job
from buddy.tools.shell import run_shell
from tests.capabilities import requires
from tests.support.machines import Machine
from tests.support.remote_tools import call, session_on, until

pytestmark = requires("linux")
STATUS = Path("/proc/self/status")


def peak_kilobytes() -> int:
    """Return the most memory this process held since the peak was reset."""
    match = re.search(r"VmHWM:\s+(\d+)", STATUS.read_text())
    assert match is not None
    return int(match[1])


async def test_a_long_output_is_held_in_little_memory(machine: Machine, tmp_path: Path) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        await call(session, run_shell, {"command": "true"})
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = peak_kilobytes()
        line = "0123456789012345678901234567890123456789012345678"
        command = f"yes {line} | head -c 49000000; echo the end; exit 3"
        result = await call(session, run_shell, {"command": command})
        assert "\nthe end\n[exit code 3" in result.text
        assert result.text.startswith(f"{line}\n")
        assert len(result.text) < 300_000
        assert peak_kilobytes() - before < 40_000


async def test_a_command_stopped_for_its_output_has_not_succeeded(machine: Machine, tmp_path: Path) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        result = await call(
            session, run_shell, {"command": "head -c 99000000 /dev/zero | tr '\\0' x; exit 4"}
        )
        assert not result.ok
        assert "exit code 0" not in result.text
        assert "it wrote more than is kept, so it was stopped" in result.text


async def test_a_stopped_job_has_not_succeeded(machine: Machine, tmp_path: Path) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        await call(session, run_shell, {"command": "echo begin; sleep 1000", "background": True})
        await until(lambda: "begin" in session.session.jobs.get(1).log.text())
        await call(session, stop_job, {"job": 1})
        assert "exit code 0" not in (await call(session, read_job, {"job": 1})).text
