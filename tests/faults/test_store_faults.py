"""REL cases of the store: processes killed, power lost, disks full and broken, files damaged."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buddy.agent.messages import Text, UserMessage
from buddy.sessions.errors import NotSavedError, ReadOnlySessionError
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.journal import SaveState
from buddy.sessions.line_codec import encode, scan
from buddy.sessions.loading import load
from buddy.sessions.records import TaskChanged
from buddy.sessions.session import OpenSession, Watch
from buddy.sessions.store import SessionStore
from tests.capabilities import requires
from tests.faults.scripted_journal import check, play
from tests.support.session_files import OPERATIONS, Failing, Faults, add_bytes, replied, said, store_in

ROOT = Path(__file__).resolve().parents[2]


async def until(condition) -> None:
    deadline = asyncio.get_running_loop().time() + 50
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)


def killed(*arguments: str) -> dict[str, Any]:
    """A bounded run of the kill bench in a process of its own (it forks, so it must have one thread)."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench.kill_rounds", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("half", [[], ["--half"]], ids=["before", "in the middle of"])
def test_REL_001_killed_at_any_file_operation_nothing_acknowledged_is_lost(half: list[str]):
    sample = killed("operations", "--turns", "30", "--step", "31", *half)
    assert sample["failures"] == []
    assert sample["rounds"] > 15
    first_turns = killed("operations", "--turns", "1", *half)
    assert first_turns["failures"] == []
    assert first_turns["rounds"] > 35
    assert first_turns["rounds"] > first_turns["operations"], "records that come together are one operation"


@pytest.mark.slow
def test_REL_002_killed_at_random_times_one_journal_loses_nothing_and_has_no_gap():
    found = killed("random", "--rounds", "40", "--seed", "2")
    assert found["failures"] == []
    assert found["acknowledged"] > 0


class PowerLoss:
    """Real files, and what each file would hold if only synced bytes had reached the medium. A power cut
    keeps any part of what was not synced; `states` yields such remains after every operation."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.durable: dict[str, bytes] = {}
        self.cut: list[tuple[int, dict[str, bytes]]] = []
        self.acked: list[str] = []
        self._paths: dict[int, str] = {}
        self._source = random.Random(3)

    def files(self) -> JournalFiles:
        real = JournalFiles()

        def opened(path: str, flags: int) -> int:
            descriptor = real.open(path, flags)
            self._paths[descriptor] = path
            return descriptor

        def write(descriptor: int, data: bytes | memoryview, offset: int) -> int:
            written = real.write(descriptor, data, offset)
            before = self.durable.get(self._paths[descriptor], b"")
            part = bytes(data)[: self._source.randrange(written + 1)]
            torn = before[:offset].ljust(offset, b"\0") + part
            self.cut.append((len(self.acked), {**self.durable, self._paths[descriptor]: torn}))
            return written

        def sync(descriptor: int) -> None:
            real.sync(descriptor)
            path = self._paths[descriptor]
            self.durable[path] = real.read_open(descriptor)
            self.cut.append((len(self.acked), dict(self.durable)))

        def rename(old: str, new: str) -> None:
            real.rename(old, new)
            # Without the directory's sync a rename may or may not have happened: both are cut points.
            self.cut.append((len(self.acked), dict(self.durable)))
            if old in self.durable:
                self.durable[new] = self.durable.pop(old)
            self.cut.append((len(self.acked), dict(self.durable)))

        return msgspec.structs.replace(real, open=opened, write=write, sync=sync, rename=rename)


async def test_REL_003_after_a_power_cut_everything_acknowledged_is_there(tmp_path: Path):
    power = PowerLoss(tmp_path)
    await play(tmp_path, turns=6, files=power.files(), acked=power.acked.append)
    store = store_in(tmp_path)
    folder = Path(store.find("last"))
    for number, (acknowledged, remains) in enumerate(power.cut):
        after = tmp_path / f"after-{number}"
        after.mkdir()
        for path, data in remains.items():
            if os.path.dirname(path) == str(folder):
                (after / os.path.basename(path)).write_bytes(data)
        if not (after / "journal.jsonl").exists():
            assert acknowledged == 0
            continue
        loaded = load(str(after), load_signer_of(store))
        check(loaded, power.acked[:acknowledged], turns=6)
        shutil.rmtree(after)
    assert len(power.cut) > 100


def load_signer_of(store: SessionStore):
    return store._signer


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_REL_004_REL_006_an_error_at_any_operation_is_shown_and_nothing_is_lost(
    tmp_path: Path, operation: str, number: int
):
    """Every N-th operation fails, for every N: the run goes on, the file is never torn in the middle."""
    for nth in (2, 3, 5, 9):
        root = tmp_path / str(nth)
        root.mkdir()
        states: list[SaveState] = []
        armed = [False]

        def plan(name: str, count: int, nth: int = nth, armed: list[bool] = armed) -> int | None:
            return number if armed[0] and name == operation and count % nth == 0 else None

        store = store_in(root, files=Faults(plan).files(), watch=Watch(saving=states.append))
        session = await store.create()
        armed[0] = True
        for turn in range(12):
            await session.writer.record_message(1, said(f"u{turn}"))
        armed[0] = False
        await session.close()
        assert [state.saved for state in states] == [False, True] * (len(states) // 2)
        assert len(states) >= 2
        assert os.strerror(number) in states[0].reason
        loaded = store.read("last")
        assert loaded.problems == ()
        assert [message.id for message in loaded.tasks[0].record.history] == [
            f"u{turn}" for turn in range(12)
        ]


async def test_REL_004_on_a_full_disk_the_run_waits_and_goes_on_when_there_is_room(tmp_path: Path):
    failing = Failing("write", number=errno.ENOSPC)
    states: list[SaveState] = []
    store = store_in(tmp_path, files=Faults(failing).files(), watch=Watch(saving=states.append))
    session = await store.create()
    failing.on = True
    begun = session.writer.tool_begin(1, "c1", "run_shell")
    await until(lambda: states)
    assert session.writer.save_state == SaveState(saved=False, reason=states[0].reason, waiting=1)
    await asyncio.sleep(0.1)
    assert not begun.done(), "no side effect starts before its record is saved"
    failing.on = False
    await begun
    assert states[-1] == SaveState(saved=True)
    await session.close()


@requires("unshare")
async def test_REL_004_a_real_full_file_system(tmp_path: Path):
    """A 64 KB file system in an unprivileged mount namespace, where the machine allows one."""
    script = """
import asyncio, sys, os
from pathlib import Path
from tests.support.session_files import store_in, said
from buddy.sessions.session import Watch
async def main():
    root = Path(sys.argv[1])
    states = []
    store = store_in(root, watch=Watch(saving=states.append))
    session = await store.create()
    saved = []
    while not states:
        future = session.writer.record_message(1, said(f"u{len(saved)}", "x" * 2000))
        saved.append(future)
        await asyncio.wait([future], timeout=0.5)
    filler = root / "filler"
    assert "No space" in states[0].reason, states
    os.unlink(filler)
    await asyncio.gather(*saved)
    await session.close()
    loaded = store.read("last")
    assert loaded.problems == (), loaded.problems
    assert len(loaded.tasks[0].record.history) == len(saved)
    assert states[-1].saved, states
    print("ok", len(saved))
asyncio.run(main())
"""
    mount = f"mount -t tmpfs -o size=128k none {tmp_path} && head -c 40000 /dev/zero > {tmp_path}/filler"
    run = await asyncio.create_subprocess_exec(
        *["unshare", "-Urm", "sh", "-c", f'{mount} && exec "$0" -c "$1" {tmp_path}', sys.executable, script],
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await run.communicate()
    assert out.startswith(b"ok"), error.decode()


async def test_REL_005_a_file_size_limit_is_a_full_disk(tmp_path: Path):
    states: list[SaveState] = []
    store = store_in(tmp_path, watch=Watch(saving=states.append))
    session = await store.create()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, before[1]))
    try:
        saved = [session.writer.record_message(1, said(f"u{n}", "x" * 500)) for n in range(10)]
        await until(lambda: states)
        assert "File too large" in states[0].reason
        assert not saved[-1].done()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    await asyncio.gather(*saved)
    await session.close()
    assert len(store.read("last").tasks[0].record.history) == 10
    assert store.read("last").problems == ()


async def test_REL_006_a_journal_that_cannot_be_read_is_an_error_and_not_a_crash(tmp_path: Path):
    failing = Failing("read")
    store = store_in(tmp_path, files=Faults(failing).files())
    session = await store.create()
    await session.close()
    failing.on = True
    with pytest.raises(OSError, match="Input/output"):
        load(session.directory, load_signer_of(store), store._files)
    assert store.list() == ()


async def test_REL_006_a_broken_disk_loses_nothing_when_the_session_is_saved_elsewhere(tmp_path: Path):
    failing = Failing("write", "sync")
    faults = Faults(failing)
    store = store_in(tmp_path, files=faults.files())
    session = await store.create()
    await session.writer.record_message(1, said("u1"))
    failing.on = True
    saved = session.writer.record_message(1, said("u2"))
    await until(lambda: not session.writer.save_state.saved)
    with pytest.raises(OSError, match="Input/output"):
        await session.move_to(str(tmp_path / "copy"))
    failing.on = False
    await session.move_to(str(tmp_path / "elsewhere/copy"))
    await saved
    await session.close()
    moved = load(str(tmp_path / "elsewhere/copy"), load_signer_of(store))
    assert [message.id for message in moved.tasks[0].record.history] == ["u1", "u2"]
    assert not moved.foreign


async def test_REL_006_leaving_with_a_broken_disk_says_what_is_lost(tmp_path: Path):
    failing = Failing("write")
    store = store_in(tmp_path, files=Faults(failing).files())
    session = await store.create()
    failing.on = True
    session.writer.record_message(1, said("u1"))
    await until(lambda: not session.writer.save_state.saved)
    with pytest.raises(NotSavedError, match="1 records could not be written"):
        await session.close()
    failing.on = False
    again = await store.open("last")
    assert again.loaded.tasks == ()
    await again.close()


@pytest.mark.parametrize("how", ["deleted", "replaced by a file", "read-only"])
async def test_REL_007_the_folder_goes_while_it_is_in_use(tmp_path: Path, how: str):
    states: list[SaveState] = []
    warnings: list[str] = []
    store = store_in(tmp_path, watch=Watch(saving=states.append, warn=warnings.append))
    session = await store.create()
    await session.writer.record_message(1, said("u1"))
    if how == "read-only":
        os.chmod(session.directory, 0o500)
        await session.writer.record_message(1, said("u2"))
        os.chmod(session.directory, 0o700)
        await session.close()
        assert len(store.read("last").tasks[0].record.history) == 2
        return
    shutil.rmtree(session.directory)
    if how == "replaced by a file":
        Path(session.directory).write_text("a file")
    saved = session.writer.record_message(1, said("u2"))
    await until(lambda: states)
    assert not states[0].saved
    assert session.writer.state().tasks[0].history == (said("u1"), said("u2"))
    await session.move_to(str(tmp_path / "rescued"))
    await saved
    await session.close()
    assert states[-1].saved
    rescued = load(str(tmp_path / "rescued"), load_signer_of(store))
    assert rescued.tasks[0].record.history == (said("u1"), said("u2"))


async def test_REL_007_a_snapshot_that_cannot_be_written_is_a_warning(tmp_path: Path):
    failing = Failing("rename", number=errno.EROFS)
    warnings: list[str] = []
    store = store_in(tmp_path, files=Faults(failing).files(), watch=Watch(warn=warnings.append))
    session = await store.create()
    await session.writer.record_message(1, said("u1"))
    failing.on = True
    await session.close()
    assert len(warnings) == 1
    assert "Read-only file system" in warnings[0]
    assert sorted(os.listdir(session.directory)) == ["journal.jsonl", "lock"]


async def small_session(root: Path) -> tuple[SessionStore, OpenSession]:
    store = store_in(root)
    session = await store.create()
    await session.writer.record_task(1, TaskChanged("small", "idle"))
    for turn in range(4):
        await session.writer.record_message(1, said(f"u{turn}", "é\u2028😀 \ud800"))
        await session.writer.record_message(1, replied(f"a{turn}", "ok"))
    await session.close()
    (Path(session.directory) / "snapshot.json").unlink()
    return store, session


async def test_REL_008_cut_off_at_any_byte_at_most_the_record_it_hit_is_lost(tmp_path: Path):
    store, session = await small_session(tmp_path)
    journal = Path(session.directory) / "journal.jsonl"
    whole = journal.read_bytes()
    ends = [found.end for found in scan(whole).lines]
    for length in range(len(whole) + 1):
        journal.write_bytes(whole[:length])
        loaded = store.read(session.session_id)
        expected = sum(1 for end in ends if end - 1 <= length)
        assert loaded.last_number == expected
        torn = length - (ends[expected - 1] if expected else 0)
        assert loaded.torn == max(0, torn)
        assert any("half a record" in problem for problem in loaded.problems) == (torn > 0)


async def test_REL_008_the_torn_end_is_kept_beside_the_journal_and_writing_goes_on(tmp_path: Path):
    store, session = await small_session(tmp_path)
    folder = Path(session.directory)
    whole = (folder / "journal.jsonl").read_bytes()
    for cut in (len(whole) - 1, len(whole) - 2, len(whole) - 40):
        (folder / "journal.jsonl").write_bytes(whole[:cut])
        (folder / "journal.torn").unlink(missing_ok=True)
        (folder / "snapshot.json").unlink(missing_ok=True)
        loaded = store.read("last")
        again = await store.open("last")
        await again.writer.record_message(1, said("after"))
        await again.close()
        found = scan((folder / "journal.jsonl").read_bytes())
        assert (found.problems, found.torn) == ((), 0)
        assert store.read("last").tasks[0].record.history[-1] == said("after")
        if loaded.torn:
            assert (folder / "journal.torn").read_bytes() == whole[loaded.end : cut]


@pytest.mark.parametrize("seed", range(4))
async def test_REL_009_random_damage_never_raises_and_is_counted(tmp_path: Path, seed: int):
    store, session = await small_session(tmp_path)
    journal = Path(session.directory) / "journal.jsonl"
    whole = journal.read_bytes()
    source = random.Random(seed)
    for _ in range(100):
        journal.write_bytes(mutated(whole, source))
        loaded = store.read(session.session_id)
        store.list()
        kept = [message.id for task in loaded.tasks for message in task.record.history]
        if loaded.last_number < 10 or len(kept) < 8:
            assert loaded.problems != ()


def mutated(data: bytes, source: random.Random) -> bytes:
    """Bytes flipped, removed, doubled or overwritten at random."""
    damaged = bytearray(data)
    for _ in range(source.randrange(1, 6)):
        at = source.randrange(len(damaged))
        match source.randrange(4):
            case 0:
                damaged[at] ^= 1 << source.randrange(8)
            case 1:
                del damaged[at : at + source.randrange(1, 200)]
            case 2:
                damaged[at:at] = damaged[at : at + source.randrange(1, 400)]
            case _:
                damaged[at : at + 10] = source.randbytes(10)
        if not damaged:
            return b""
    return bytes(damaged)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data + b"\0" * 2048, id="NUL tail"),
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="byte order mark"),
        pytest.param(lambda data: data.replace(b"\n", b"\n\n"), id="empty lines"),
        pytest.param(lambda data: b"\0" * 512 + b"\n" + data, id="NUL head"),
    ],
)
async def test_REL_010_what_editors_and_crashes_leave_is_tolerated(tmp_path: Path, damage):
    store, session = await small_session(tmp_path)
    journal = Path(session.directory) / "journal.jsonl"
    history = store.read("last").tasks[0].record.history
    assert history[0] == UserMessage("u0", (Text("é\u2028😀 \ud800"),), "prompt")
    journal.write_bytes(damage(journal.read_bytes()))
    again = await store.open(session.session_id)
    assert again.loaded.tasks[0].record.history == history
    await again.writer.record_message(1, said("after"))
    await again.close()
    (Path(session.directory) / "snapshot.json").unlink()
    assert store.read("last").tasks[0].record.history == (*history, said("after"))


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"{", b"\n\n"])
async def test_REL_010_a_session_without_a_single_record_loads_and_can_be_used(
    tmp_path: Path, content: bytes
):
    store, session = await small_session(tmp_path)
    (Path(session.directory) / "journal.jsonl").write_bytes(content)
    assert store.read(session.session_id).tasks == ()
    again = await store.open(session.session_id)
    await again.writer.record_message(1, said("u1"))
    await again.close()
    assert store.read("last").tasks[0].record.history == (said("u1"),)


async def test_REL_011_a_newer_version_is_opened_read_only_and_its_unknown_records_stay(tmp_path: Path):
    store, session = await small_session(tmp_path)
    journal = Path(session.directory) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    newer = msgspec.structs.replace(session.writer.header, version=99)
    header = msgspec.to_builtins(load_signer_of(store).sign_header(newer)) | {"colour": "blue"}
    unknown = encode(len(lines) + 1, "hologram", 1, 2.0, {"depth": 3}, session.seal)
    first = encode(1, "session", 0, 1.0, header, session.seal)
    journal.write_bytes(b"".join([first, *lines[1:], unknown]))
    before = journal.read_bytes()

    loaded = store.read("last")
    assert "newer buddy (format 99" in loaded.read_only
    assert "1 records of unknown kind 'hologram' are kept" in loaded.problems
    assert len(loaded.tasks[0].record.history) == 8
    assert store.list()[0].newer
    with pytest.raises(ReadOnlySessionError, match="newer buddy"):
        await store.open("last")
    with pytest.raises(ReadOnlySessionError, match="can't be forked"):
        store.fork("last")
    assert journal.read_bytes() == before


async def test_REL_011_unknown_records_of_this_version_survive_a_resume_and_a_fork(tmp_path: Path):
    store, session = await small_session(tmp_path)
    add_bytes(session.directory, encode(11, "hologram", 1, 2.0, {"depth": "\ud800"}, session.seal))
    again = await store.open("last")
    await again.writer.record_message(1, said("after"))
    await again.close()
    forked = store.find(store.fork(session.session_id))
    for folder in (session.directory, forked):
        assert (
            b'"kind":"hologram","task":1,"at":2.0,"data":{"depth":"\\ud800"}'
            in Path(folder, "journal.jsonl").read_bytes()
        )


async def test_REL_012_ten_thousand_records_and_a_single_huge_one_load(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    for number in range(10_000):
        session.writer.record_message(1, said(f"u{number}", "x" * 100))
    session.writer.record_message(1, replied("huge", "y" * 5_000_000))
    await session.close()
    with_snapshot = store.read("last")
    assert with_snapshot.from_snapshot
    (Path(session.directory) / "snapshot.json").unlink()
    without = store.read("last")
    assert not without.from_snapshot
    assert without.state == with_snapshot.state
    assert len(without.tasks[0].record.history) == 10_001
    assert store.list()[0].last_at == without.last_at


ODD = ["\ud800", "\udfff\ud800", "a\0b", "x" * 1_000_000, "👩‍👩‍👧‍👦" * 3, "\u2028\u2029\x85\r\n", "\x1b[31m"]


@pytest.mark.parametrize("text", ODD, ids=ascii([odd[:4] for odd in ODD])[1:-1].split(", "))
async def test_REL_013_odd_text_is_written_and_read_back_as_it_was(tmp_path: Path, text: str):
    store = store_in(tmp_path)
    session = await store.create()
    for end in range(1, min(len(text), 30) + 1):
        await session.writer.record_message(1, said(f"u{end}", f"{text[:end]}."))
    await session.writer.record_message(1, said("whole", text + "."))
    before = session.writer.state()
    await session.close()
    assert store.read("last").state == before
    (Path(session.directory) / "snapshot.json").unlink()
    assert store.read("last").state == before


async def test_the_kill_is_real(tmp_path: Path):
    """The bench's own guard: a child that is never killed comes to its end and says how far it came."""
    found = killed("operations", "--turns", "1", "--first", "100000")
    assert found["rounds"] == 1
    assert found["operations"] > len(OPERATIONS)
    assert signal.SIGKILL == 9
