"""Files of an editor: what the model reads and edits is what the editor shows, also where it is not saved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, schema, text_block

from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.editor import FileEditor, opened
from tests.support.program import Program

SAVED = "x = 1\ny = 2\n"
UNSAVED = "x = 1\nunsaved = True\ny = 2\n"
READ = reply(call("read_file", path="a.py"))
EDIT = reply(call("edit_file", path="a.py", old="y = 2", new="y = 3"))
DONE = reply("Done.")


class Scene:
    """An open session whose editor shows a.py."""

    def __init__(
        self, program: Program, editor: FileEditor, connection: Any, id_: str, model: FakeLLM
    ) -> None:
        self.program, self.editor, self.connection, self.id, self.model = (
            program,
            editor,
            connection,
            id_,
            model,
        )
        self.path = str(program.repo / "a.py")

    async def prompt(self, text: str = "go") -> str:
        return (await self.connection.prompt(session_id=self.id, prompt=[text_block(text)])).stop_reason

    def disk(self) -> str:
        return (self.program.repo / "a.py").read_bytes().decode()

    def disk_or_none(self) -> str | None:
        return self.disk() if Path(self.path).exists() else None

    def said(self) -> str:
        return " ".join(self.editor.text().split())

    def results(self) -> list[str]:
        return self.model.requests[-1].tool_results


@asynccontextmanager
async def scene(
    folder: Path, replies: Sequence[Reply], editor: FileEditor | None = None
) -> AsyncGenerator[Scene]:
    mine = editor or FileEditor("once")
    async with opened(folder, replies, editor=mine) as (program, _editor, connection, session_id, model):
        yield Scene(program, mine, connection, session_id, model)


async def test_an_unsaved_buffer_is_what_the_model_sees_and_edits(tmp_path: Path) -> None:
    async with scene(tmp_path, [READ, EDIT, DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        assert await it.prompt() == "end_turn"
        assert it.editor.buffers[it.path] == UNSAVED.replace("y = 2", "y = 3")
        assert it.disk() == SAVED
        read, edited = it.results()
        assert "unsaved = True" in read
        assert "unsaved in the editor" in read
        assert "not saved yet in the editor" in edited
        [(request, _options)] = it.editor.requests
        [diff] = [part for part in request.content or [] if part.type == "diff"]
        assert "unsaved = True" in diff.old_text


async def test_a_saved_file_is_written_through_the_editor_and_keeps_its_line_ends(tmp_path: Path) -> None:
    async with scene(tmp_path, [READ, EDIT, DONE]) as it:
        (it.program.repo / "a.py").write_bytes(b"x = 1\r\ny = 2\r\n")
        await it.prompt()
        assert it.disk() == "x = 1\r\ny = 3\r\n"
        assert ("write", it.path) in it.editor.asked
        assert "unsaved" not in "".join(it.results())


async def test_undo_and_redo_take_an_unsaved_buffer_back_and_forth(tmp_path: Path) -> None:
    async with scene(tmp_path, [READ, EDIT, DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt()
        await it.prompt("/undo")
        assert (it.editor.buffers[it.path], it.disk()) == (UNSAVED, SAVED)
        await it.prompt("/redo")
        assert "y = 3" in it.editor.buffers[it.path]


async def test_what_was_typed_after_an_edit_stays_when_it_is_taken_back(tmp_path: Path) -> None:
    async with scene(tmp_path, [READ, EDIT, DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt()
        it.editor.buffers[it.path] = "typed = 1\n" + it.editor.buffers[it.path]
        await it.prompt("/undo")
        assert "y = 3" in it.editor.buffers[it.path]  # refused, or asked about: nothing is lost
        assert "typed = 1" in it.editor.buffers[it.path]


async def test_a_file_typed_in_after_it_was_read_is_not_overwritten(tmp_path: Path) -> None:
    write = reply(call("write_file", path="a.py", content="mine\n"))
    async with scene(tmp_path, [READ, DONE, write, DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt()
        it.editor.buffers[it.path] = "typed\n"
        await it.prompt("write it")
        assert it.editor.buffers[it.path] == "typed\n"
        assert "Nothing was changed" in it.results()[-1]


async def test_a_command_is_told_which_files_it_did_not_see(tmp_path: Path) -> None:
    shell = reply(call("run_shell", command="cat a.py"))
    async with scene(tmp_path, [READ, shell, shell, DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt()
        assert "unsaved = True" not in it.results()[1]
        assert "[not saved in the editor, so this saw what is on the disk: a.py]" in it.results()[1]


async def test_no_file_is_called_unsaved_once_the_person_has_saved_it(tmp_path: Path) -> None:
    shell = reply(call("run_shell", command="cat a.py"))
    async with scene(tmp_path, [READ, DONE, shell, DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt()
        (it.program.repo / "a.py").write_text(UNSAVED)
        await it.prompt("run it")
        assert "unsaved = True" in it.results()[-1]
        assert "not saved" not in it.results()[-1]


async def test_a_new_file_and_one_that_only_the_editor_has(tmp_path: Path) -> None:
    replies = [
        reply(call("write_file", path="sub/new.py", content="n = 1\n")),
        reply(call("read_file", path="draft.py")),
        reply(call("edit_file", path="draft.py", old="d = 1", new="d = 2")),
        DONE,
    ]
    async with scene(tmp_path, replies) as it:
        draft = str(it.program.repo / "draft.py")
        it.editor.buffers[draft] = "d = 1\n"
        await it.prompt()
        assert (it.program.repo / "sub" / "new.py").read_text() == "n = 1\n"
        assert it.editor.buffers[draft] == "d = 2\n"
        assert not Path(draft).exists()
        await it.prompt("/undo")
        assert it.editor.buffers[draft] == "d = 1\n"


async def test_a_mentioned_file_is_attached_as_the_editor_shows_it(tmp_path: Path) -> None:
    async with scene(tmp_path, [DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt("look at @a.py")
        assert "unsaved = True" in str(it.model.requests[-1].json)


async def test_a_file_with_unsaved_changes_is_not_deleted(tmp_path: Path) -> None:
    async with scene(tmp_path, [reply(call("delete_file", path="a.py")), DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt()
        assert it.disk() == SAVED
        assert "unsaved changes in the editor" in it.results()[-1]


MOVES = [call("delete_file", path="lib"), call("move_file", source="lib", target="moved")]


@pytest.mark.parametrize("going", MOVES, ids=["delete", "move"])
async def test_a_folder_with_a_file_that_nobody_knew_to_be_unsaved_stays(tmp_path: Path, going: Any) -> None:
    async with scene(tmp_path, [reply(going), DONE]) as it:
        lib = it.program.repo / "lib" / "deep"
        lib.mkdir(parents=True)
        (lib / "b.py").write_text(SAVED)
        (lib / "c.bin").write_bytes(b"\0\1")
        (lib / "loop").symlink_to(lib)
        it.editor.buffers[str(lib / "b.py")] = UNSAVED
        await it.prompt()
        assert (lib / "b.py").read_text() == SAVED
        assert "lib has unsaved changes in the editor" in it.results()[-1]


@pytest.mark.parametrize("going", MOVES, ids=["delete", "move"])
async def test_a_folder_the_editor_has_nothing_unsaved_of_goes(tmp_path: Path, going: Any) -> None:
    async with scene(tmp_path, [reply(going), DONE]) as it:
        lib = it.program.repo / "lib"
        lib.mkdir()
        for at in range(201 if going is MOVES[0] else 3):
            (lib / f"{at}.py").write_text(SAVED)
        await it.prompt()
        assert not lib.exists()
        assert ("the first 200 files" in it.results()[-1]) == (going is MOVES[0])
        assert sum(path.startswith(str(lib)) for _verb, path in it.editor.asked) <= 200


class SilentEditor(FileEditor):
    """An editor that answers nothing usable about files below lib."""

    async def read_text_file(self, session_id: str, path: str, **options: Any) -> schema.ReadTextFileResponse:
        if "/lib/" in path:
            return {"content": 5}  # type: ignore[return-value]
        return await super().read_text_file(session_id, path, **options)


@pytest.mark.parametrize("going", MOVES, ids=["delete", "move"])
async def test_a_folder_stays_while_the_editor_cannot_be_asked(tmp_path: Path, going: Any) -> None:
    async with scene(tmp_path, [reply(going), DONE], SilentEditor("once")) as it:
        (it.program.repo / "lib").mkdir()
        (it.program.repo / "lib/b.py").write_text(SAVED)
        await it.prompt()
        assert (it.program.repo / "lib/b.py").read_text() == SAVED


@pytest.mark.parametrize("command", ["echo z >> a.py", "rm a.py", "mv a.py b.py"])
async def test_taking_a_command_back_leaves_what_was_typed_and_not_saved(
    tmp_path: Path, command: str
) -> None:
    async with scene(tmp_path, [READ, reply(call("run_shell", command=command)), DONE]) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt()
        assert it.disk_or_none() != SAVED
        await it.prompt("/undo")
        assert it.editor.buffers[it.path] == UNSAVED
        assert "a.py has changes in the editor that are not saved" in it.said()


async def test_an_editor_that_only_reads_gets_no_unsaved_file_overwritten(tmp_path: Path) -> None:
    async with scene(tmp_path, [READ, EDIT, DONE], FileEditor("once", writes=False)) as it:
        it.editor.buffers[it.path] = UNSAVED
        await it.prompt()
        assert it.disk() == SAVED
        assert "has to save it first" in it.results()[-1]


async def test_secret_and_outside_files_are_asked_about_before_the_editor_is(tmp_path: Path) -> None:
    replies = [reply(call("read_file", path=".env")), reply(call("read_file", path="/etc/hostname")), DONE]
    async with scene(tmp_path, replies, FileEditor("no")) as it:
        secret = str(it.program.repo / ".env")
        it.editor.buffers[secret] = "KEY=hidden-value\n"
        it.program.files(__env="KEY=hidden-value\n")
        (it.program.repo / ".env").write_text("KEY=hidden-value\n")
        await it.prompt()
        assert "hidden-value" not in str(it.model.requests[-1].json)
        assert it.editor.asked == []


async def test_files_of_other_kinds_and_other_folders_are_read_on_the_disk(tmp_path: Path) -> None:
    replies = [reply(call("read_file", path="data.bin")), DONE]
    async with scene(tmp_path, replies) as it:
        (it.program.repo / "data.bin").write_bytes(b"\0\1\2\3")
        await it.prompt()
        assert it.editor.asked == []


class Refusing(FileEditor):
    async def read_text_file(self, session_id: str, path: str, **_options: Any) -> Any:
        raise RequestError(-32603, "\x1b[31mno\x1b[0m")


class OtherText(FileEditor):
    """Answers with another file's text."""

    async def read_text_file(self, session_id: str, path: str, **_options: Any) -> Any:
        return schema.ReadTextFileResponse(content="somebody else\n")


class Huge(FileEditor):
    async def read_text_file(self, session_id: str, path: str, **_options: Any) -> Any:
        return schema.ReadTextFileResponse(content="a" * 55_000_000)


class NoText(FileEditor):
    async def read_text_file(self, session_id: str, path: str, **_options: Any) -> Any:
        return {"content": 7}


class NulText(FileEditor):
    async def read_text_file(self, session_id: str, path: str, **_options: Any) -> Any:
        return schema.ReadTextFileResponse(content="a\0b")


class Liar(FileEditor):
    """Says that it wrote, and did not."""

    async def write_text_file(self, session_id: str, path: str, content: str, **_options: Any) -> Any:
        return schema.WriteTextFileResponse()


class WriteRefused(FileEditor):
    async def write_text_file(self, session_id: str, path: str, content: str, **_options: Any) -> Any:
        raise RequestError(-32603, "the disk of the editor is full")


class Silent(FileEditor):
    async def read_text_file(self, session_id: str, path: str, **_options: Any) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        (Refusing, "the editor does not show it: no"),
        (OtherText, "not found"),
        (Huge, "longer than"),
        (NoText, "not what the protocol says"),
        (NulText, "NUL character"),
        (Liar, "neither it nor the disk has the new text"),
        (WriteRefused, "the disk of the editor is full"),
        (Silent, "did not answer within"),
    ],
)
async def test_an_editor_that_answers_wrongly_costs_that_call_only(
    tmp_path: Path, editor: type[FileEditor], words: str
) -> None:
    async with scene(tmp_path, [READ, EDIT, reply("Sorry."), reply("Hi.")], editor("once")) as it:
        assert await it.prompt() == "end_turn"
        assert words in it.results()[-1]
        assert "\x1b" not in it.results()[-1]
        assert it.disk() == SAVED
        assert await it.prompt("again") == "end_turn"


async def test_an_editor_that_formats_what_it_saves_is_believed_and_told_about(tmp_path: Path) -> None:
    class Formatting(FileEditor):
        async def write_text_file(self, session_id: str, path: str, content: str, **_options: Any) -> Any:
            Path(path).write_text(content + "# formatted\n")
            return schema.WriteTextFileResponse()

    async with scene(tmp_path, [READ, EDIT, DONE], Formatting("once")) as it:
        await it.prompt()
        assert it.disk() == "x = 1\ny = 3\n# formatted\n"
        assert "read it again before" in it.results()[-1]


class Forgetful(FileEditor):
    """Writes, and shows the file no more until it is asked again after the turn."""

    blind = False

    async def write_text_file(self, session_id: str, path: str, content: str, **options: Any) -> Any:
        answer = await super().write_text_file(session_id, path, content, **options)
        self.blind = True
        return answer

    async def read_text_file(self, session_id: str, path: str, **options: Any) -> Any:
        if self.blind:
            raise RequestError(-32603, "busy")
        return await super().read_text_file(session_id, path, **options)


async def test_a_write_that_can_not_be_looked_at_can_be_undone(tmp_path: Path) -> None:
    editor = Forgetful("once")
    async with scene(tmp_path, [READ, EDIT, DONE], editor) as it:
        await it.prompt()
        assert it.disk() == SAVED.replace("y = 2", "y = 3")
        assert "can't be told" in it.results()[-1]
        assert "nothing was" not in it.results()[-1].lower()
        editor.blind = False
        await it.prompt("/undo")
        assert it.disk() == SAVED


async def test_an_editor_that_writes_and_then_refuses_is_looked_at(tmp_path: Path) -> None:
    class Contrary(FileEditor):
        async def write_text_file(self, session_id: str, path: str, content: str, **options: Any) -> Any:
            await super().write_text_file(session_id, path, content, **options)
            raise RequestError(-32603, "a plug-in failed")

    async with scene(tmp_path, [READ, EDIT, DONE], Contrary("once")) as it:
        await it.prompt()
        assert it.disk() == SAVED.replace("y = 2", "y = 3")
        assert "Nothing was changed" not in it.results()[-1]
        await it.prompt("/undo")
        assert it.disk() == SAVED
