# ruff: noqa: ASYNC221 - commands of a few milliseconds, and no loop is shared
"""Changes of commands can be undone, and the user's own changes stay."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import time
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.workspace.checkpoints.checkpoints import Checkpoints, Mark, Taken
from buddy.workspace.checkpoints.snapshots import Bounds
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.undo.log import Intent
from tests.support.undo_logs import undo_log

ENVIRONMENT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


class Place:
    """A working tree, its checkpoints and its undo log."""

    def __init__(self, root: Path, *, repository: bool, bounds: Bounds | None = None) -> None:
        self.root = Path(os.path.realpath(root)) / "work"
        self.root.mkdir()
        home = root / "home"
        home.mkdir()
        if repository:
            self.git("init", "-q", "-b", "main")
            self.git("config", "user.email", "a@example.org")
            self.git("config", "user.name", "A")
        session = self.root / ".buddyx/sessions/s"
        self.log = undo_log(str(session / "undo"))
        variables = {"PATH": os.environ["PATH"], "HOME": str(home)}
        self.checkpoints = Checkpoints(
            str(session / "checkpoints"), str(self.root), self.log, variables, bounds
        )
        self.locks = FileLocks()
        self.calls = 0

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ("git", *arguments), cwd=self.root, env=ENVIRONMENT, capture_output=True, text=True, check=True
        )
        return done.stdout

    def put(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    async def shell(self, command: str, *, task_id: int = 1) -> Taken:
        """A call of a task that runs a command."""
        self.calls += 1
        mark = await self.checkpoints.begin(task_id, f"c{self.calls}", "run_shell")
        assert isinstance(mark, Mark), mark
        subprocess.run(("bash", "-c", command), cwd=self.root, env=ENVIRONMENT, check=True)
        taken = await self.checkpoints.end(mark)
        assert isinstance(taken, Taken), taken
        return taken

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Everything of the working tree but repositories' and buddy's own folders."""
        found: dict[str, tuple[int, bytes]] = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in (".git", ".buddyx")]
            for name in names:
                path = Path(folder) / name
                link = path.is_symlink()
                data = os.fsencode(os.readlink(path)) if link else path.read_bytes()
                found[str(path.relative_to(self.root))] = (path.lstat().st_mode, data)
        return found

    def theirs(self) -> dict[str, str]:
        """Every file of the person's `.git`, by hash."""
        return {
            str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (self.root / ".git").rglob("*")
            if path.is_file()
        }


@pytest.fixture(params=["repository", "folder"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return Place(tmp_path, repository=request.param == "repository")


async def test_what_a_command_changed_is_taken_back_and_made_again(place: Place) -> None:
    place.put("a.txt", "one\n")
    place.put("old/b.bin", b"\0\xff").chmod(0o640)
    place.put("run.sh", "echo\n").chmod(0o644)
    os.symlink("a.txt", place.root / "link")
    before = place.files()
    taken = await place.shell(
        "echo two >> a.txt; rm old/b.bin link; echo n > new.txt; chmod +x run.sh; ln -s gone other"
    )
    after = place.files()
    assert sorted(taken.paths) == ["a.txt", "link", "new.txt", "old/b.bin", "other", "run.sh"]
    place.log.undo(place.locks)
    restored = place.files()
    assert {name: data for name, (_, data) in restored.items()} == {n: d for n, (_, d) in before.items()}
    assert restored["run.sh"] == before["run.sh"]
    assert restored["link"] == before["link"]
    place.log.redo(place.locks)
    assert place.files() == after


async def test_the_persons_edits_before_between_and_after_calls_stay(place: Place) -> None:
    path = place.put("a.txt", "".join(f"line {number}\n" for number in range(20)))
    await place.shell("sed -i 's/line 2$/command 2/' a.txt")
    path.write_text(path.read_text().replace("line 10\n", "person 10\n"))
    await place.shell("sed -i 's/line 18$/command 18/' a.txt", task_id=2)
    path.write_text(path.read_text() + "person at the end\n")
    place.log.undo(place.locks, 1, merging=True)
    text = path.read_text()
    assert "line 2\n" in text
    assert "person 10\n" in text
    assert "command 18\n" in text
    assert text.endswith("person at the end\n")


async def test_what_the_person_saved_while_a_command_ran_can_be_left_out(place: Place) -> None:
    place.put("a.txt", "old\n")
    mine = place.put("mine.txt", "1\n")
    started = time.monotonic()
    mark = await place.checkpoints.begin(1, "c", "run_shell")
    place.put("a.txt", "new\n")
    mine.write_text("1\nmine\n")
    assert isinstance(mark, Mark)
    await place.checkpoints.end(mark)
    (entry,) = place.log.entries()
    assert 0 < entry.seconds < time.monotonic() - started
    place.log.undo(place.locks, without=[str(mine)])
    assert (place.root / "a.txt").read_text() == "old\n"
    mine.write_text("1\nmine, and more\n")
    again = undo_log(str(place.root / ".buddyx/sessions/s/undo"))
    again.redo(place.locks)
    assert ((place.root / "a.txt").read_text(), mine.read_text()) == ("new\n", "1\nmine, and more\n")


async def test_a_hunk_that_somebody_changed_since_is_not_taken_back(place: Place) -> None:
    path = place.put("a.txt", "one\ntwo\nthree\n")
    await place.shell("sed -i s/two/2/ a.txt")
    path.write_text("one\ntwo by hand\nthree\n")
    with pytest.raises(ToolError, match=r"changed by something else in the same place \(lines 2 to 2"):
        place.log.undo(place.locks, 1, merging=True)
    assert path.read_text() == "one\ntwo by hand\nthree\n"


async def test_a_merged_undo_can_be_undone(place: Place) -> None:
    path = place.put("a.txt", "one\ntwo\nthree\nfour\nfive\n")
    await place.shell("sed -i s/two/2/ a.txt")
    path.write_text(path.read_text().replace("five", "5"))
    place.log.undo(place.locks, 1, merging=True)
    assert path.read_text() == "one\ntwo\nthree\nfour\n5\n"
    again = undo_log(str(place.root / ".buddyx/sessions/s/undo"))
    again.redo(place.locks)
    assert path.read_text() == "one\n2\nthree\nfour\n5\n"


async def test_an_edit_of_another_task_meanwhile_is_not_the_commands(place: Place) -> None:
    path = place.put("a.txt", "a\n")
    mark = await place.checkpoints.begin(1, "c1", "run_shell")
    assert isinstance(mark, Mark)
    place.log.prepare(2, "c2", "edit_file", [Intent(str(path), None, b"edited\n")])
    path.write_text("edited\n")
    place.put("b.txt", "by the command\n")
    taken = await place.checkpoints.end(mark)
    assert isinstance(taken, Taken)
    assert taken.paths == ("b.txt",)


async def test_two_commands_at_once_are_told_apart_as_far_as_possible(place: Place) -> None:
    one = await place.checkpoints.begin(1, "c1", "run_shell")
    two = await place.checkpoints.begin(2, "c2", "run_shell")
    assert isinstance(one, Mark)
    assert isinstance(two, Mark)
    place.put("x", "x")
    first = await place.checkpoints.end(two)
    place.put("y", "y")
    second = await place.checkpoints.end(one)
    assert isinstance(first, Taken)
    assert isinstance(second, Taken)
    assert (first.paths, second.paths) == (("x",), ("y",))
    assert first.notes == (
        "run_shell ran at the same time as run_shell of task 1: changes of both may be mixed",
    )


async def test_ignored_files_are_not_covered(place: Place) -> None:
    place.put(".gitignore", "build/\n")
    place.put("build/x", "1")
    taken = await place.shell("echo 2 > build/x")
    assert taken.entry_id == 0
    assert taken.before == taken.after


async def test_the_store_itself_is_not_part_of_the_tree_wherever_it_lies(tmp_path: Path) -> None:
    place = Place(tmp_path, repository=False)
    session = place.root / "my [old] * sessions" / "s"
    place.checkpoints = Checkpoints(str(session / "checkpoints"), str(place.root), place.log, ENVIRONMENT)
    await place.shell("echo 1 > a.txt")
    taken = await place.shell("echo 2 > a.txt")
    assert taken.paths == ("a.txt",)
    assert place.log.entries()[0].files[0].real == str(place.root / "a.txt")


async def test_a_large_file_is_left_out_and_that_is_said_once(tmp_path: Path) -> None:
    place = Place(tmp_path, repository=True, bounds=Bounds(max_file_bytes=1000))
    place.put("big", b"x" * 2000)
    taken = await place.shell("echo y >> big; echo small > s")
    assert taken.paths == ("s",)
    assert taken.notes == (
        "not covered by /undo (too large, unreadable, secret, or a repository of its own): big",
    )
    assert (await place.shell("echo z >> big")).notes == ()


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (Bounds(max_files=3), "5 files to keep, at most 3"),
        (Bounds(max_bytes=3), "5 bytes to keep, at most 3"),
    ],
)
async def test_a_tree_that_is_too_large_ends_checkpoints_with_one_sentence(
    tmp_path: Path, bounds: Bounds, why: str
) -> None:
    place = Place(tmp_path, repository=False, bounds=bounds)
    for number in range(5):
        place.put(f"f{number}", "x")
    said = await place.checkpoints.begin(1, "c1", "run_shell")
    assert isinstance(said, str)
    assert why in said
    assert await place.checkpoints.begin(1, "c2", "run_shell") == ""


async def test_without_git_there_are_no_checkpoints_and_that_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    log = undo_log(str(folder / "undo"))
    file = tmp_path / "no-folder"
    file.write_text("")
    checkpoints = Checkpoints(str(file / "below"), str(tmp_path), log, {})
    said = await checkpoints.begin(1, "c", "run_shell")
    assert said == (
        "the folder for checkpoints can't be made: Not a directory. /undo covers edits, not what commands "
        "change."
    )


async def test_filters_and_line_ends_of_the_repository_change_no_byte(tmp_path: Path) -> None:
    place = Place(tmp_path, repository=True)
    marker = tmp_path / "ran"
    place.git("config", "filter.evil.clean", f"touch {marker}; tr a-z A-Z")
    place.git("config", "core.autocrlf", "true")
    place.put("a.txt", "one\r\ntwo\r\n")
    place.git("add", "-A")
    place.git("commit", "-q", "-m", "x")
    place.put(".gitattributes", "* filter=evil text=auto\n")
    await place.shell("echo new > a.txt")
    place.log.undo(place.locks)
    assert (place.root / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert not marker.exists()


async def test_a_repository_of_its_own_inside_is_left_alone(place: Place) -> None:
    inner = place.put("inner/file", "x\n").parent
    subprocess.run(("git", "init", "-q"), cwd=inner, env=ENVIRONMENT, check=True)
    taken = await place.shell("echo y > inner/file; echo z > z")
    assert taken.paths == ("z",)
    assert "inner/" in taken.notes[0]


async def test_contents_that_the_repository_dropped_are_still_taken_back(tmp_path: Path) -> None:
    place = Place(tmp_path, repository=True)
    place.put("a.txt", "staged only\n")
    place.git("add", "-A")
    await place.shell("echo b > a.txt")
    place.git("rm", "-q", "--cached", "-f", "a.txt")
    place.git("gc", "-q", "--prune=now")
    place.log.undo(place.locks)
    assert (place.root / "a.txt").read_text() == "staged only\n"


async def test_a_broken_index_of_the_person_costs_time_only(tmp_path: Path) -> None:
    place = Place(tmp_path, repository=True)
    place.put("a.txt", "1\n")
    (place.root / ".git/index").write_bytes(b"DIRC\0\0\0\2 nonsense")
    await place.shell("echo 2 > a.txt")
    place.log.undo(place.locks)
    assert (place.root / "a.txt").read_text() == "1\n"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_no_sequence_of_work_touches_the_persons_edits_index_head_or_stash(
    tmp_path: Path, seed: int
) -> None:
    """The person edits lines of their own, stages, commits and stashes; tasks run commands on theirs; in the
    end everything of the tasks is taken back, and what is left is the person's work alone."""
    chance = random.Random(seed)
    place = Place(tmp_path, repository=True)
    names = ["a.txt", "b.txt", "sub/c.txt"]
    mine = {name: [f"{name} {number}" for number in range(40)] for name in names}
    for name in names:
        place.put(name, "\n".join(mine[name]) + "\n")
    place.git("add", "-A")
    place.git("commit", "-q", "-m", "first")

    def change(name: str, number: int, text: str) -> None:
        lines = (place.root / name).read_text().split("\n")
        lines[number] = text
        (place.root / name).write_text("\n".join(lines))

    for step in range(25):
        name = chance.choice(names)
        theirs = None if step == 0 else place.theirs()
        match chance.choice(["person", "task", "task", "undo", "commit", "stage", "redo"]):
            case "person":
                number = chance.randrange(0, 40, 8)
                mine[name][number] = f"person {step}"
                change(name, number, f"person {step}")
                theirs = None
            case "task":
                number = chance.randrange(4, 40, 8)
                task_id = chance.choice([1, 2])
                await place.shell(f"sed -i '{number + 1}s/.*/task {task_id} {step}/' {name}", task_id=task_id)
            case "undo":
                _try(place, "undo", chance.choice([1, 2]))
            case "redo":
                _try(place, "redo", chance.choice([1, 2]))
            case "stage":
                place.git("add", name)
                theirs = None
            case _:
                place.git("commit", "-q", "--allow-empty", "-am", f"step {step}")
                theirs = None
        assert theirs is None or place.theirs() == theirs
    theirs = place.theirs()
    while place.log.entries():
        place.log.undo(place.locks, place.log.entries()[-1].task_id, merging=True)
    assert place.theirs() == theirs
    assert {name: (place.root / name).read_text() for name in names} == {
        name: "\n".join(lines) + "\n" for name, lines in mine.items()
    }


def _try(place: Place, what: str, task_id: int) -> None:
    with suppress(ToolError):
        getattr(place.log, what)(place.locks, task_id, merging=True)


async def test_secret_files_are_not_copied_and_that_is_said(place: Place) -> None:
    """Tracked, new, changed, removed: nothing of them stands below the session's folder, and no undo pretends
    to know them."""
    place.put("committed.pem", "certificate-one\n")
    place.put("a.txt", "one\n")
    place.put(".env", "PASSWORD=hunter-two\n")
    if (place.root / ".git").exists():
        place.git("add", "committed.pem", "a.txt")
        place.git("commit", "-qm", "start")
    taken = await place.shell(
        "echo certificate-two > committed.pem; echo PASSWORD=number-three > .env; echo two > a.txt; "
        "echo new-four > id_rsa; chmod +x a.txt"
    )
    assert taken.paths == ("a.txt",)
    (note,) = taken.notes
    assert note.startswith(
        "not covered by /undo (too large, unreadable, secret, or a repository of its own): "
    )
    assert {".env", "committed.pem", "id_rsa"} == set(note.rpartition(": ")[2].split(", "))
    await place.shell("rm .env id_rsa; git add -A . 2>/dev/null; true")
    place.log.undo(place.locks)
    assert (place.root / "a.txt").read_text() == "one\n"
    assert (place.root / "committed.pem").read_text() == "certificate-two\n"
    stored = place.root / ".buddyx/sessions/s"
    kept = subprocess.run(
        ("sh", "-c", "git --git-dir=\"$0\"/checkpoints/* cat-file --batch --batch-all-objects 2>/dev/null; "
         'cat $(find "$0" -type f)', str(stored)),
        capture_output=True, check=False,
    ).stdout  # fmt: skip
    for secret in (b"hunter-two", b"number-three", b"new-four", b"certificate-two"):
        assert secret not in kept
    names = [zlib.decompress(one.read_bytes()) for one in stored.rglob("objects/??/*")]
    assert names
    assert not [data for data in names if b"hunter" in data or b"certificate" in data or b"-four" in data]


async def test_a_file_that_grew_too_large_is_not_taken_for_a_removed_one(tmp_path: Path) -> None:
    place = Place(tmp_path, repository=True, bounds=Bounds(max_file_bytes=10))
    place.put("grows", "small\n")
    taken = await place.shell("seq 1 100 > grows")
    assert (taken.paths, taken.entry_id) == ((), 0)
    assert taken.notes[0].endswith(": grows")


async def test_permissions_that_change_twice_within_a_second_are_seen(place: Place) -> None:
    """The index keeps whole seconds: it can't tell the second change from the first."""
    path = place.put("a.txt", "one\n")
    path.chmod(0o644)
    await place.shell("true")
    for mode, was in (("600", 0o644), ("640", 0o600), ("604", 0o640)):
        taken = await place.shell(f"chmod {mode} a.txt")
        assert taken.paths == ("a.txt",)
        place.log.undo(place.locks)
        assert path.stat().st_mode & 0o777 == was
        path.chmod(int(mode, 8))


async def test_new_permissions_of_many_files_do_not_count_as_files_to_keep(tmp_path: Path) -> None:
    place = Place(tmp_path, repository=True, bounds=Bounds(max_files=150))
    for start in (0, 100):
        for number in range(start, start + 100):
            place.put(f"d/f{number}.txt", f"{number}\n").chmod(0o644)
        await place.shell("true")
    time.sleep(1.1)  # noqa: ASYNC251 - into another second, so that the index knows them as touched
    taken = await place.shell("chmod 600 d/*; echo more >> d/f7.txt")
    assert (len(taken.paths), place.checkpoints.off) == (200, "")
    place.log.undo(place.locks)
    assert (place.root / "d/f7.txt").read_text() == "7\n"
    assert {path.stat().st_mode & 0o777 for path in (place.root / "d").iterdir()} == {0o644}
    assert (await place.shell("true")).paths == ()
