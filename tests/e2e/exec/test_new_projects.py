"""`buddy new`, `/new-project` and the model's `create_project`, on the real program."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal

CREATE = {"template": "python-package", "directory": "tool", "variables": {"description": "A tool."}}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


async def test_buddy_new_creates_all_files_or_none(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9")
    ran = await program.run("new")
    assert ran.code == 0
    assert "python-package: Python package." in ran.out
    ran = await program.run("new", "python-package", "tool", "--print")
    assert (ran.code, (program.repo / "tool").exists()) == (0, False)
    assert "tool/src/tool/__init__.py" in ran.out
    ran = await program.run("new", "python-package", "tool", "description=A tool.")
    assert ran.code == 0, ran.err
    assert ".venv/bin/python -m pytest" in ran.out
    assert 'description = "A tool."' in (program.repo / "tool/pyproject.toml").read_text()
    before = files(program.repo / "tool")
    (program.repo / "tool/README.md").write_text("mine")
    (program.repo / "tool/pyproject.toml").unlink()
    ran = await program.run("new", "python-package", "tool")
    assert ran.code == 1
    assert "exists; nothing is overwritten" in ran.err
    assert (program.repo / "tool/README.md").read_text() == "mine"
    assert files(program.repo / "tool") == before - {"pyproject.toml"}
    ran = await program.run("new", "feature", "please")
    assert ran.code == 2
    assert "buddy -- new feature please" in ran.err


async def test_buddy_new_asks_on_a_terminal(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9")
    async with on_terminal(program, "new", "python-cli", "tool", ready="name") as terminal:
        await terminal.shows("name of the distribution [tool]:")
        terminal.keys("Not This\n")
        await terminal.shows("expected lower case letters")
        terminal.keys("my-tool\n")
        await terminal.shows("name to import [my_tool]:")
        terminal.keys("\n")
        await terminal.shows("one sentence about it")
        terminal.keys("\n")
        await terminal.shows("components, of")
        terminal.keys("-\n")
        await terminal.shows("Create them?")
        terminal.keys("y\n")
        assert await terminal.exit_code() == 0
    assert (program.repo / "tool/src/my_tool/cli.py").exists()
    assert not (program.repo / "tool/tests").exists()


async def test_the_model_creates_a_project_within_its_permissions(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: next(replies)) as server:
        program = Program(tmp_path, server.url)
        program.files(a__txt="x")
        replies = iter(
            [
                reply(call("create_project", **CREATE)),
                reply(call("add_component", component="docs", directory="tool")),
                reply(call("create_project", **CREATE)),
                reply("made"),
            ]
        )
        ran = await program.run("exec", "--permission-mode", "edit", "make a tool")
        assert (ran.code, ran.out) == (0, "made\n"), ran.err
        results = [message.text for message in await program.history() if hasattr(message, "call_id")]
    assert "created 7 files in tool" in results[0]
    assert "mkdocs" in results[1]
    assert "exists; nothing is overwritten" in results[2]
    assert {"tool/docs/index.md", "tool/pyproject.toml"} <= {
        f"tool/{name}" for name in files(program.repo / "tool")
    }


async def test_without_an_approval_nothing_is_created(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: next(replies)) as server:
        program = Program(tmp_path, server.url)
        program.files(a__txt="x")
        replies = iter(
            [
                reply(call("create_project", **CREATE)),
                reply("no"),
            ]
        )
        ran = await program.run("exec", "make a tool")
    assert ran.code == 3
    assert not (program.repo / "tool").exists()


async def test_a_foreign_record_is_not_overwritten_by_a_new_project(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9")
    (program.repo / "tool").mkdir()
    (program.repo / "tool/.buddy-project.toml").write_text("mine")
    ran = await program.run("new", "python-package", "tool")
    assert (ran.code, (program.repo / "tool/.buddy-project.toml").read_text()) == (1, "mine")
    async with FakeLLM(lambda _asked: next(replies)) as server:
        program.url = server.url
        program.configure({})
        replies = iter([reply(call("create_project", **CREATE)), reply("no")])
        await program.run("exec", "--permission-mode", "edit", "make it")
    assert files(program.repo / "tool") == {".buddy-project.toml"}


async def test_protected_files_of_a_template_ask_in_mode_edit(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: next(replies)) as server:
        program = Program(tmp_path, server.url)
        program.files(a__txt="x")
        folder = program.config / "templates/projects/sly"
        (folder / "files/.vscode").mkdir(parents=True)
        (folder / "template.toml").write_text('title = "x"\ndescription = "y"\nlanguage = "none"\n')
        (folder / "files/.vscode/settings.json").write_text("{}")
        replies = iter(
            [
                reply(call("create_project", template="sly", directory=".")),
                reply("no"),
            ]
        )
        ran = await program.run("exec", "--permission-mode", "edit", "make it")
    assert ran.code == 3
    assert not (program.repo / ".vscode").exists()


async def test_new_project_and_undo_at_the_prompt(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        program.files(a__txt="x")
        async with on_terminal(program) as terminal:
            await terminal.line("/new-project static-page site title=Shop")
            await terminal.has_shown("created")
            assert "<title>Shop</title>" in (program.repo / "site/index.html").read_text()
            await terminal.line("/undo")
            await terminal.until(lambda: not (program.repo / "site/index.html").exists(), "it is taken back")
            assert files(program.repo / "site") == set()
            await terminal.line("/new-project static-pages site")
            await terminal.has_shown("did you mean static-page")
            assert await terminal.leaves() == 0
