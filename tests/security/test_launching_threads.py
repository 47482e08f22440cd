"""The thread that starts a command under Landlock is confined like the command: it must be gone before."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from buddy.workspace.sandbox.own_thread import call_in_own_thread
from tests.capabilities import requires
from tests.support.sandbox_machine import landlock_only, sandbox_machine

STATE = "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/self/status"


@requires("landlock")
async def test_a_command_has_no_capabilities_and_both_filters() -> None:
    async with sandbox_machine(look=landlock_only) as machine:
        done = await machine.run(STATE, machine.confinement())
    fields = dict(line.split() for line in done.text.splitlines())
    assert {name: int(value, 16) for name, value in fields.items() if name not in KEPT} == {
        "CapInh:": 0,
        "CapPrm:": 0,
        "CapEff:": 0,
        "CapAmb:": 0,
        "NoNewPrivs:": 1,
        "Seccomp:": 2,
        "Seccomp_filters:": int(_filters(), 16) + 2,
    } | ({"CapBnd:": 0} if os.geteuid() == 0 else {})


KEPT = () if os.geteuid() == 0 else ("CapBnd:",)


def _filters() -> str:
    status = Path("/proc/self/status").read_text().splitlines()
    return next((line.split()[1] for line in status if line.startswith("Seccomp_filters:")), "0")


@requires("landlock")
async def test_the_program_itself_keeps_its_rights() -> None:
    before = _rights()
    async with sandbox_machine(look=landlock_only) as machine:
        for _ in range(5):
            done = await machine.run("echo x > file", machine.confinement())
            assert done.code == 0, done.text
        (machine.outside / "file").write_text("by the program\n")
    assert _rights() == before


def _rights() -> list[str]:
    wanted = ("Cap", "NoNewPrivs", "Seccomp")
    folders = (Path("/proc/self"), *Path("/proc/self/task").iterdir())
    found = {line for path in folders for line in (path / "status").read_text().splitlines()}
    return sorted(line for line in found if line.startswith(wanted))


@requires("landlock")
async def test_a_command_begins_when_no_thread_shares_its_confinement() -> None:
    """The first thing it does is to look at all threads of the program."""
    look = f'for one in /proc/{os.getpid()}/task/*; do read -r name <"$one/comm"; echo "$name"; done'
    async with sandbox_machine(look=landlock_only) as machine:
        seen = [(await machine.run(look, machine.confinement())).text for _ in range(20)]
    assert all(text.strip() for text in seen)
    assert [text for text in seen if "launcher" in text] == []


@requires("landlock")
async def test_a_gate_is_gone_after_a_command_that_cannot_be_started() -> None:
    async with sandbox_machine(look=landlock_only) as machine:
        temporary = (await machine.run("printf %s $TMPDIR", machine.confinement())).text
        os.rename(machine.work, machine.top / "elsewhere")
        with pytest.raises(Exception, match="expected a folder to work in"):
            await machine.run("true", machine.confinement())
        os.rename(machine.top / "elsewhere", machine.work)
        assert sorted(os.listdir(os.path.dirname(temporary))) == ["empty", "filter", "tmp"]
        assert (await machine.run("echo fine", machine.confinement())).text == "fine\n"


def test_a_call_in_its_own_thread_leaves_none_behind() -> None:
    before = set(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else set()
    assert call_in_own_thread(threading.get_native_id, "one") != threading.get_native_id()
    after = set(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else set()
    assert after <= before


def test_a_call_in_its_own_thread_raises_what_it_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        call_in_own_thread(lambda: 1 // 0, "one")
