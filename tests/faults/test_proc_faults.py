# ruff: noqa: ASYNC220, ASYNC221 - these tests start whole programs and wait for them; no loop is shared
"""Effects of commands on their caller, and their leftovers: REL-042 to REL-050, SEC-086, SEC-087."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from buddy.safety.secrets.key_shapes import Span
from buddy.safety.secrets.redact import secret_spans
from buddy.tools.jobs import read_job, stop_job
from buddy.tools.shell import run_shell
from buddy.workspace.processes.limits import ProcessLimits
from buddy.workspace.processes.output import BLOCK_BYTES, MOST_BYTES, OutputBounds
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.processes.process_tree import ProcessInfo, all_processes, is_same, strays
from buddy.workspace.sandbox.tether import Tether
from tests.capabilities import IN_A_NAMESPACE, IN_LIMITS, NOBODY, requires
from tests.support.processes import processes_with, sleepers, zombie_children
from tests.support.sandbox_machine import sandbox_machine
from tests.support.tool_project import tool_project
from tests.support.waiting import until

linux = requires("proc")

FAMILIES = {
    "child": "sleep {n} & sleep {n}; true",
    "grandchild": "bash -c 'sleep {n} & bash -c \"sleep {n}; true\"; true'; true",
    "setsid child": "setsid sleep {n} & setsid bash -c 'sleep {n}; true' & sleep {n}; true",
    "double fork": (
        "(setsid bash -c '(setsid sleep {n} &) ; sleep {n}; true' >/dev/null 2>&1 &) ; sleep {n}; true"
    ),
    "no environment": (
        "(env -i setsid /bin/bash -c '(env -i setsid sleep {n} &); sleep {n}; true' &); sleep {n}; true"
    ),
    "stopped": "sleep {n} & kill -STOP $!; sleep {n}; true",
    "daemon": (
        "python3 -c 'import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        'for fd in range(3): os.close(fd)\nos.environ.clear()\nos.execv("/bin/sleep", ["sleep", "{n}"])\' ; '
        "sleep {n}; true"
    ),
}


@pytest.fixture
def zombies_before() -> list[int]:
    """Other tests of this process may have left some; each test answers for its own."""
    return zombie_children()


def number() -> str:
    """Seconds to sleep that nobody else sleeps: the mark of one test's processes."""
    return f"{3000 + int.from_bytes(os.urandom(3), 'big')}.{os.getpid()}"


def asleep(mark: str) -> list[int]:
    return processes_with(mark)


@linux
@pytest.mark.parametrize("family", FAMILIES)
async def test_REL_042_cancelling_leaves_no_process_of_a_command(
    tmp_path: Path, family: str, zombies_before: list[int]
) -> None:
    mark = number()
    async with tool_project(tmp_path) as project:
        work = asyncio.ensure_future(project.call(run_shell, command=FAMILIES[family].replace("{n}", mark)))
        await until(lambda: len(asleep(mark)) >= 2)
        await asyncio.sleep(0.05)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert asleep(mark) == []
        assert zombie_children() == zombies_before


@linux
async def test_REL_042_the_event_alone_ends_the_tree_too(tmp_path: Path) -> None:
    mark = number()
    async with tool_project(tmp_path) as project:
        work = asyncio.ensure_future(
            project.call(run_shell, command=f"setsid sleep {mark} & sleep {mark}; true")
        )
        await until(lambda: len(asleep(mark)) >= 2)
        project.cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert asleep(mark) == []


@linux
async def test_REL_042_a_second_cancellation_does_not_hurry_past_the_first(tmp_path: Path) -> None:
    mark = number()
    async with tool_project(tmp_path, grace_s=40) as project:
        last = "until test -e go; do sleep 0.01; done; exit"
        command = f"trap '{last}' TERM; sleep {mark} & while :; do sleep {mark}; done"
        work = asyncio.ensure_future(project.call(run_shell, command=command))
        await until(lambda: len(asleep(mark)) >= 2)
        for _ in range(5):
            work.cancel()
            await asyncio.sleep(0.02)
        assert not work.done()
        (project.root / "go").touch()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert asleep(mark) == []


@linux
async def test_REL_042_two_hundred_cancellations_in_the_middle_leave_nothing(
    tmp_path: Path, zombies_before: list[int]
) -> None:
    mark = number()
    command = f"(setsid sleep {mark} >/dev/null 2>&1 &); sleep {mark} & echo x; sleep {mark}; true"
    async with tool_project(tmp_path) as project:
        for turn in range(200):
            work = asyncio.ensure_future(project.call(run_shell, command=command))
            await asyncio.sleep((turn % 20) * 0.001)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        assert asleep(mark) == []
        assert zombie_children() == zombies_before
        assert project.jobs.all() == ()


@linux
async def test_REL_042_leaving_the_session_ends_every_job(tmp_path: Path, zombies_before: list[int]) -> None:
    mark = number()
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command=f"setsid sleep {mark} & sleep {mark}", background=True)
        await project.call(run_shell, command=f"sleep {mark}", pty=True)
        await project.call(run_shell, command=f"(setsid sleep {mark} >/dev/null 2>&1 &)")
        await until(lambda: len(asleep(mark)) >= 4)
    assert asleep(mark) == []
    assert zombie_children() == zombies_before


@linux
async def test_REL_043_a_command_that_ignores_signals_is_killed(tmp_path: Path) -> None:
    mark = number()
    async with tool_project(tmp_path) as project:
        command = f"trap '' INT TERM HUP; (trap '' TERM; sleep {mark}; true) & sleep {mark}; sleep {mark}"
        work = asyncio.ensure_future(project.call(run_shell, command=command))
        await until(lambda: len(asleep(mark)) >= 2)
        begin = time.monotonic()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert asleep(mark) == []
        assert time.monotonic() - begin < 4 * 10  # a deadline against hanging; the bench measures


@linux
async def test_REL_043_processes_born_while_the_tree_is_ended_do_not_get_away(tmp_path: Path) -> None:
    mark = number()
    async with tool_project(tmp_path, grace_s=0.2) as project:
        command = f"trap 'for i in 1 2 3; do setsid sleep {mark} & done' TERM; while :; do sleep 0.01; done"
        child = project.children.start(project.request(command))
        await asyncio.sleep(0.2)
        ending = await child.end("test")
        assert (ending.survivors, asleep(mark)) == ((), [])


@linux
async def test_REL_044_a_grandchild_that_keeps_the_output_open_does_not_hold_the_result(
    tmp_path: Path,
) -> None:
    mark = number()
    async with tool_project(tmp_path) as project:
        begin = time.monotonic()
        result = await project.call(run_shell, command=f"echo done; sleep {mark} & disown; exit 3")
        assert time.monotonic() - begin < 40  # a deadline against hanging
        assert result.text.startswith("done\n[exit code 3")
        assert "processes it started are still running: they are job 1" in result.text
        assert len(asleep(mark)) == 1
        await project.call(stop_job, job=1)
        assert asleep(mark) == []


@linux
async def test_REL_044_what_a_grandchild_writes_later_is_in_its_job(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(
            run_shell, command="(until test -e go; do sleep 0.01; done; echo later) & echo now"
        )
        (project.root / "go").touch()
        news = await project.call(read_job, job=1, offset=4, wait=30)
        assert news.text.startswith("later\n[bytes 4–10 of 10")
        await until(lambda: project.jobs.all()[0].state == "ended")


@linux
async def test_REL_044_what_a_grandchild_writes_just_before_it_ends_is_not_lost(tmp_path: Path) -> None:
    """The loop gets no turn between the last words and the look that finds nobody left."""
    async with tool_project(tmp_path) as project:
        command = "(until test -e go; do sleep 0.01; done; echo later) & echo now"
        child = project.children.start(project.request(command))
        assert (await child.wait()).left_running
        (project.root / "go").touch()
        while child.tree.left_running():
            time.sleep(0.01)  # noqa: ASYNC251 - holds up the loop, as a busy machine does
        await child.wait_all()
        assert child.log.text() == "now\nlater\n"


FLOODS = {
    "10 MB": "head -c 10000000 /dev/zero | tr '\\0' x",
    "1 GB": "head -c 1000000000 /dev/zero",
    "endless": "yes 'a line of output that never ends'",
    "endless without newline": "cat /dev/zero",
    "endless single bytes": "python3 -c 'import os\nwhile True: os.write(1, b\"x\")'",
}


@linux
@pytest.mark.parametrize("flood", FLOODS)
async def test_REL_045_floods_cost_bounded_memory_and_leave_the_loop_alive(
    tmp_path: Path, flood: str
) -> None:
    """Stretches of the loop are measured in processor time: the machine may stand still."""
    async with tool_project(tmp_path) as project:
        await project.run("true")
        before = resident_kb()
        peak, slowest = [before], [0.0]
        watcher = asyncio.ensure_future(_watch(peak, slowest))
        result = await project.call(run_shell, command=FLOODS[flood], timeout=4)
        watcher.cancel()
        if result.display.ended.startswith("running"):
            await project.call(stop_job, job=1)
        assert max(peak) - before < 20_000, f"{max(peak) - before} kB more"
        assert slowest[0] < 1.0  # ten times what is wanted: a deadline, not a measurement
        assert len(result.text) < 140_000
        assert sum(map(len, project.progress)) < 2_000_000


async def _watch(peak: list[int], slowest: list[float]) -> None:
    while True:
        begin = time.thread_time()
        await asyncio.sleep(0.005)
        slowest[0] = max(slowest[0], time.thread_time() - begin)
        peak.append(resident_kb())


def resident_kb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


@pytest.mark.parametrize(
    "command",
    [
        "yes",
        "head -c 131500 /dev/zero",
        "head -c 1000000 /dev/urandom",
        "yes 'password=a1b2c3d4e5' | head -c 600000",
        "echo '-----BEGIN PRIVATE KEY-----'; yes 0123456789abcdefABCDEF0123456789abcdef | head -c 300000",
        "yes & sleep 0.2",
    ],
)
async def test_REL_045_between_two_looks_at_the_keys_little_is_searched_for_secrets(
    tmp_path: Path, command: str
) -> None:
    looked: Counter[int] = Counter()
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        loop.call_soon(tick)

    def find(text: str) -> list[Span]:
        looked[ticks] += len(text)
        return secret_spans(text)

    loop = asyncio.get_running_loop()
    loop.call_soon(tick)
    async with tool_project(tmp_path, bounds=OutputBounds(cap_bytes=2_000_000)) as project:
        settings = msgspec.structs.replace(project.children.settings, find_secrets=find)
        async with ChildProcesses(project.children.environment, settings) as children:
            child = children.start(project.request(command))
            done = await children.attend(child, timeout_s=30, cancelled=project.cancelled)
            assert done is not None
            await child.end("over")
            kept = min(child.log.total, 2_000_000)
            assert Path(child.log.path).stat().st_size == kept
    block = MOST_BYTES if "PRIVATE" in command else BLOCK_BYTES
    assert max(looked.values()) <= 3 * block  # a read, and what the end of the command found
    assert sum(looked.values()) >= kept


@linux
async def test_REL_045_a_command_that_writes_past_the_cap_is_stopped_and_told(tmp_path: Path) -> None:
    bounds = OutputBounds(head_bytes=100, tail_bytes=100, cap_bytes=5000)
    async with tool_project(tmp_path, bounds=bounds, grace_s=40) as project:
        result = await project.call(
            run_shell, command="trap 'echo told; exit 7' TERM; while :; do echo aaaaaaaaa; done"
        )
        assert "[exit code 7, " in result.text
        assert "it wrote more than is kept, so it was stopped" in result.text
        assert "told" in result.text
        path = re.search(r"the whole \(the first 5 kB\) is in (\S+) …\]", result.text)
        assert path is not None
        assert Path(path[1]).read_bytes() == (b"aaaaaaaaa\n" * 500)
        assert Path(path[1]).stat().st_mode & 0o777 == 0o600
        assert Path(path[1]).parent.stat().st_mode & 0o777 == 0o700


@linux
async def test_REL_045_the_time_limit_fires_in_the_middle_of_a_flood(tmp_path: Path) -> None:
    async with tool_project(tmp_path, bounds=OutputBounds(cap_bytes=10**12)) as project:
        work = asyncio.ensure_future(project.run("while :; do echo x; done", timeout_s=0.3))
        done = await asyncio.wait_for(work, 30)
        assert done.timed_out
        assert (done.exit.signal, done.exit.stopped_for) == ("SIGTERM", "time limit")


async def test_REL_046_binary_output_and_split_characters_arrive_as_text(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        command = r"printf '\xe2'; sleep 0.12; printf '\x82'; sleep 0.12; printf '\xac \xff\xfe\x00 \xe2\x82'"
        result = await project.call(run_shell, command=command)
        assert result.text.startswith("€ \ufffd\ufffd\x00 \ufffd\n[exit code 0")
        assert "".join(project.progress) == "€ \ufffd\ufffd\x00 \ufffd"


async def test_REL_046_escape_floods_and_every_byte_are_taken(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        script = "import os\nos.write(1, bytes(range(256)) * 40 + b'\\x1b]0;' * 5000 + b'\\x1b[31m' * 5000)"
        (project.root / "flood.py").write_text(script)
        result = await project.call(run_shell, command="python3 flood.py")
        assert result.ok
        on_terminal = await project.call(run_shell, command="python3 flood.py; sleep 0.2", pty=True)
        assert on_terminal.text
        await until(lambda: all(job.state == "ended" for job in project.jobs.all()))


@linux
@pytest.mark.parametrize(
    "command",
    [
        "cat",
        "read -r line; echo got=$line",
        "cat </dev/tty",
        "stty -a </dev/tty; echo typed >/dev/tty",
        "python3 -c 'import getpass; getpass.getpass()'",
        "vi -es x </dev/tty",
        "ssh -o ConnectTimeout=1 nobody@127.0.0.1 -p 1 true",
        "sudo -n true",
    ],
)
async def test_REL_047_commands_that_want_a_person_end_and_touch_no_terminal(
    tmp_path: Path, command: str
) -> None:
    ours, theirs = os.openpty()
    try:
        async with tool_project(tmp_path) as project:
            result = await project.call(run_shell, command=command, timeout=20)
            assert "goes on in the background" not in result.text
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 1)
    finally:
        os.close(ours)
        os.close(theirs)


@linux
async def test_REL_047_a_child_has_no_controlling_terminal_even_when_buddy_has_one(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import asyncio, sys
        from pathlib import Path
        from tests.support.tool_project import tool_project

        async def main():
            async with tool_project(Path(sys.argv[1])) as project:
                done = await project.run("(exec </dev/tty) 2>&1; tty; ps -o tty= -p $$")
                print(repr(done.text))

        asyncio.run(main())
    """)
    command = ["script", "-qec", f"{sys.executable} -c '{script}' {tmp_path}", "/dev/null"]
    if shutil.which("script") is None:
        command = ["setsid", "-c", sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert "No such device or address" in done.stdout
    assert "not a tty" in done.stdout


@linux
async def test_REL_048_what_a_killed_buddy_left_running_is_listed_and_can_be_ended(tmp_path: Path) -> None:
    mark = number()
    script = textwrap.dedent(f"""
        import asyncio, sys
        from pathlib import Path
        from tests.support.tool_project import tool_project
        from tests.support.processes import sleepers
        from tests.support.waiting import until

        async def main():
            async with tool_project(Path(sys.argv[1])) as project:
                for _ in range(5):
                    project.children.start(project.request("setsid sleep {mark} & sleep {mark}; true"))
                await until(lambda: len(sleepers("{mark}")) == 10)
                print("ready", flush=True)
                await asyncio.sleep(60)

        asyncio.run(main())
    """)
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as buddy:
        assert buddy.stdout is not None
        assert buddy.stdout.readline() == "ready\n"
        assert [stray for stray in strays() if mark in stray.command] == []
        buddy.kill()
    left = [stray for stray in strays() if mark in stray.command]
    assert len(left) >= 10
    assert {stray.session_id for stray in left} == {"session-1"}
    for stray in left:
        stray.end(signal.SIGKILL)
    await until(lambda: not asleep(mark))
    _bury_adopted()


def _bury_adopted() -> None:
    """Processes of a killed buddy were passed to this process, which adopts orphans too."""
    for pid in zombie_children():
        os.waitpid(pid, 0)


@linux
async def test_REL_042_a_buddy_run_by_buddy_cannot_shield_its_children(
    tmp_path: Path, zombies_before: list[int]
) -> None:
    mark = number()
    script = textwrap.dedent(f"""
        import asyncio, signal, sys
        from pathlib import Path
        from tests.support.tool_project import tool_project

        async def main():
            async with tool_project(Path(sys.argv[1])) as project:
                command = "trap '' TERM; setsid sleep {mark} & sleep {mark}; true"
                project.children.start(project.request(command))
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                await asyncio.sleep(60)

        asyncio.run(main())
    """)
    (tmp_path / "inner.py").write_text(script)
    async with tool_project(tmp_path, grace_s=0.3) as project:
        root = Path(__file__).resolve().parents[2]
        command = f"PYTHONPATH={root} {sys.executable} {tmp_path}/inner.py {tmp_path}"
        work = asyncio.ensure_future(project.call(run_shell, command=command))
        await until(lambda: len(asleep(mark)) >= 2)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert asleep(mark) == []
        assert zombie_children() == zombies_before


@linux
async def test_REL_049_a_memory_hog_and_a_disk_filler_hit_their_limits(tmp_path: Path) -> None:
    limits = ProcessLimits(memory_bytes=300_000_000, file_bytes=1_000_000, cpu_s=20, open_files=100)
    async with tool_project(tmp_path, limits=limits) as project:
        hog = await project.run("python3 -c 'x = bytearray(10**9)'")
        assert "MemoryError" in hog.text
        filler = await project.run("head -c 5000000 /dev/zero > big")
        assert not filler.ok
        assert (project.root / "big").stat().st_size <= 1_000_000
        nested = await project.run("setsid bash -c 'ulimit -v; ulimit -f; ulimit -n; ulimit -c; ulimit -t'")
        assert nested.text.split() == ["292968", "976", "100", "0", "20"]


@requires("proc", "root", "setpriv")  # a limit of processes counts for other users than root
async def test_REL_049_a_fork_bomb_stops_at_its_limit_and_dies_with_its_command(
    tmp_path: Path, zombies_before: list[int]
) -> None:
    mark = number()
    tmp_path.chmod(0o777)
    async with tool_project(tmp_path, limits=ProcessLimits(processes=60), grace_s=0.3) as project:
        project.root.chmod(0o777)
        bomb = f"exec -a {mark} bash -c 'f() {{ f | f & }}; f; sleep 1; f; sleep 20'"
        command = f'setpriv --reuid=64321 --clear-groups -- bash -c "{bomb}"'
        child = project.children.start(project.request(command))
        ticks = 0
        for _ in range(50):
            await asyncio.sleep(0.01)
            ticks += 1
        ending = await child.end("test")
        assert (ticks, ending.survivors) == (50, ())
        assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _owner(pid) == 64321]
        assert zombie_children() == zombies_before


GREEDY = """
import os, time
while True:
    try:
        if not os.fork():
            time.sleep(1000)
    except BlockingIOError:
        print("full", flush=True)
        time.sleep(1000)
"""
STARVED = """
import asyncio, os, sys
from pathlib import Path
from tests.support.tool_project import tool_project

async def main():
    async with tool_project(Path(sys.argv[1])) as project:
        full = asyncio.Event()
        child = project.children.start(project.request(f"exec {sys.executable} greedy.py"))
        child.listeners.append(lambda data: full.set())
        await full.wait()
        own = await project.run("echo a | cat | cat; (true; echo b)", limited=False)
        print(own.text.split(), own.exit.code)
        await child.end("test")

asyncio.run(main())
"""


@requires("process limits")
def test_REL_042_a_command_that_takes_all_processes_leaves_some_to_buddy(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/greedy.py").write_text(GREEDY)
    owner = NOBODY + 1  # other tests fill the first one's processes
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, owner, owner)
    limits = [part.replace(str(NOBODY), str(owner)) for part in IN_LIMITS]
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [*IN_A_NAMESPACE, *limits, sys.executable, "-c", STARVED, str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ran.stdout, ran.returncode) == ("['a', 'b'] 0\n", 0), ran.stderr


def _owner(pid: str) -> int:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return -1


@linux
async def test_REL_049_core_dumps_are_off_without_any_configuration(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        assert (await project.run("sleep 0.05; ulimit -c; bash -c 'ulimit -Hc'")).text == "0\n0\n"


@linux
async def test_REL_050_five_hundred_commands_leave_no_zombie_and_no_descriptor(
    tmp_path: Path, zombies_before: list[int]
) -> None:
    async with tool_project(tmp_path) as project:
        await project.run("true")
        descriptors = len(os.listdir("/proc/self/fd"))
        for turn in range(500):
            await project.run("true" if turn % 5 else "(true &); (setsid true &); sleep 0.001 & true")
        await project.children.end_all()
        assert zombie_children() == zombies_before
        assert len(os.listdir("/proc/self/fd")) == descriptors


@requires("bwrap")
async def test_a_closed_sandbox_leaves_no_descriptor() -> None:
    async with sandbox_machine() as machine:
        await machine.run("true", machine.confinement())
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        async with sandbox_machine() as machine:
            await machine.run("true", machine.confinement())
    assert len(os.listdir("/proc/self/fd")) == descriptors


SECRETS = {
    "OPENAI_API_KEY": "sk-first",
    "ANTHROPIC_API_KEY": "sk-second",
    "GITHUB_TOKEN": "ghp_third",
    "AWS_SECRET_ACCESS_KEY": "fourth",
    "DB_PASSWORD": "fifth",
    "XDG_SECRET_THING": "sixth",
    "LC_API_KEY": "seventh",
    "MY_PROVIDER": "eighth",
    "HTTPS_PROXY": "http://user:ninth@proxy",
}


async def test_SEC_086_no_key_reaches_a_child(tmp_path: Path) -> None:
    allowed = frozenset({"OPENAI_API_KEY", "MY_PROVIDER", "DB_PASSWORD", "EDITOR"})
    variables = {
        **SECRETS,
        "EDITOR": "vi",
        "LC_TIME": "C",
        "XDG_CACHE_HOME": "/c",
        "BASH_ENV": "/evil",
        "LD_PRELOAD": "x",
    }
    async with tool_project(
        tmp_path, variables=variables, allowed=allowed, forbidden=frozenset({"MY_PROVIDER"})
    ) as project:
        result = await project.call(run_shell, command="env -0 | sort -z | tr '\\0' '\\n'")
        names = {line.partition("=")[0] for line in result.text.splitlines() if "=" in line}
        assert names == {
            "AI_AGENT", "BUDDY_JOB", "BUDDY_SESSION_ID", "BUDDY_TASK_ID", "EDITOR", "GIT_PAGER",
            "GIT_TERMINAL_PROMPT", "HOME", "LANG", "LC_TIME", "PAGER", "PATH", "PWD", "SHLVL", "TERM",
            "XDG_CACHE_HOME", "_",
        }  # fmt: skip
        assert not [value for value in SECRETS.values() if value in result.text]


@linux
def test_SEC_087_a_child_cannot_read_the_environment_of_buddy() -> None:
    script = textwrap.dedent("""
        import ctypes, os, subprocess
        from buddy.safety.crash_report import guard_process

        def child_reads():
            done = subprocess.run(["cat", f"/proc/{os.getpid()}/environ"], capture_output=True)
            return done.returncode, b"sk-first" in done.stdout, b"denied" in done.stderr

        if os.geteuid() == 0:  # root may read everything; be somebody else
            os.setgid(64321)
            os.setuid(64321)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
        print(child_reads(), guard_process(), child_reads())
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "OPENAI_API_KEY": "sk-first"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "(0, True, False) () (1, False, True)\n", done.stderr


CONFINED_VICTIM = textwrap.dedent("""
    import asyncio, sys
    from buddy.workspace.processes.launch import shell_argv
    from buddy.workspace.processes.pool import CommandRequest
    from tests.support.sandbox_machine import LOOKS, sandbox_machine

    async def main(level, command, count):
        async with sandbox_machine(look=LOOKS[level]) as machine:
            assert machine.sandbox.status.level == level
            await machine.sandbox.survey(machine.boundary)
            print("ready", flush=True)
            for _ in range(count):
                confinement = machine.confinement()
                request = CommandRequest(shell_argv(command), str(machine.work), 1, confinement=confinement)
                machine.children.start(request)
                await asyncio.sleep(0)
            await asyncio.sleep(60)

    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
""")
LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]


def confined_victim(home: Path, level: int, command: str, count: int) -> subprocess.Popen[str]:
    """A buddy that starts confined commands, in a home of its own: it is killed before it tidies up."""
    victim = subprocess.Popen(
        [sys.executable, "-c", CONFINED_VICTIM, str(level), command, str(count)],
        env={**os.environ, "HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    assert victim.stdout.readline() == "ready\n"
    return victim


def living(processes: list[ProcessInfo]) -> list[ProcessInfo]:
    return [now for process in processes if (now := is_same(process)) and now.alive]


def descendants(pid: int) -> list[ProcessInfo]:
    """Every process below one, at this moment."""
    everyone = all_processes()
    found = {pid}
    while more := {one.pid for one in everyone.values() if one.parent in found} - found:
        found |= more
    return [everyone[one] for one in found - {pid} if one in everyone]


@linux
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "daemon"])
async def test_REL_048_in_a_sandbox_the_command_dies_with_buddy(
    tmp_path: Path, level: int, family: str
) -> None:
    mark = number()
    with confined_victim(tmp_path, level, FAMILIES[family].replace("{n}", mark), 3) as buddy:
        await until(lambda: len(sleepers(mark)) >= (3 if family == "stopped" else 6))
        left = descendants(buddy.pid)
        assert len(left) > 6  # the commands, the tether, the holder of the network
        buddy.kill()
    await until(lambda: not asleep(mark) and not living(left))
    _bury_adopted()


@linux
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("moment_ms", range(0, 60, 5))
async def test_REL_048_no_moment_is_too_early_for_it(tmp_path: Path, level: int, moment_ms: int) -> None:
    mark = number()
    with confined_victim(tmp_path, level, f"setsid sleep {mark} & sleep {mark}; true", 200) as buddy:
        await asyncio.sleep(moment_ms / 1000)
        buddy.kill()
    await until(lambda: not asleep(mark))
    await asyncio.sleep(0.2)  # a command that had only just been started
    assert asleep(mark) == []
    _bury_adopted()


@linux
async def test_REL_048_the_tether_ends_the_others_when_one_is_gone(tmp_path: Path) -> None:
    mark = number()
    tether = Tether(str(tmp_path))
    tether.tie(int.from_bytes(os.urandom(6), "big"))
    shell = next(one for one in descendants(os.getpid()) if one.parent == os.getpid())
    tether.tie_group(2**22 - 1)  # nobody's
    groups = [subprocess.Popen(["sleep", mark], start_new_session=True) for _ in range(3)]
    for group in groups:
        tether.tie_group(group.pid)
    tether.untie(1, groups[1].pid)
    tether.close()
    assert [groups[0].wait(20), groups[2].wait(20), groups[1].poll()] == [-9, -9, None]
    groups[1].kill()
    groups[1].wait()
    assert not living([shell])
