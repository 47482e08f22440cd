"""Completions while a line is typed: commands, arguments, files, tasks; and that no key waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from buddy.repl.commands.registry import builtin_commands
from buddy.repl.early import LateCompleter
from buddy.repl.input.completion import SessionCompleter
from buddy.repl.intents import Cancel
from buddy.workspace.files.name_index import FileIndex, best_matches, in_folder
from tests.fake_llm.script import reply
from tests.support.events_for_tests import Tape
from tests.support.repl import Repl, open_repl
from tests.support.screen_harness import running_repl


def completer_of(repl: Repl) -> SessionCompleter:
    index = FileIndex(str(repl.program.repo))
    index.match("", 1)
    assert index.wait(20), "the first listing"
    return SessionCompleter(
        builtin_commands(),
        repl.context,
        lambda: str(repl.program.repo),
        lambda text: best_matches(index, text),
    )


async def offered(repl: Repl, text: str, *, asked: bool = False) -> list[tuple[str, str]]:
    """Return the line after each offer, and the offer's description."""
    completer = completer_of(repl)
    event = CompleteEvent(completion_requested=asked, text_inserted=not asked)
    found: list[tuple[str, str]] = []
    async for one in completer.get_completions_async(Document(text), event):
        line = text[: len(text) + one.start_position] + one.text
        found.append((line, one.display_meta_text))
    return found


async def lines(repl: Repl, text: str, *, asked: bool = False) -> list[str]:
    return [line for line, _about in await offered(repl, text, asked=asked)]


async def test_commands_are_offered_with_their_help(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        assert await offered(repl, "/exp") == [
            ("/export", "Write the session to a file, without known secrets")
        ]
        assert [line for line, _about in await offered(repl, "/exi")] == ["/exit"], (
            "an alias, by its own name"
        )
        assert len(await offered(repl, "/")) == len(builtin_commands().all())
        assert await offered(repl, "/zzz") == []
        assert await offered(repl, "say /exp") == []
        assert await lines(repl, "/help ex") == ["/help exit", "/help export"]


async def test_arguments_are_offered_for_what_they_name(tmp_path: Path) -> None:
    profiles = {"models": {"fast": {"model": "openai/fast", "base_url": "http://127.0.0.1:9/v1"}}}
    async with open_repl(tmp_path, lambda _asked: reply("done"), settings=profiles) as repl:
        await repl.turn("hello")
        first = repl.context.session.session_id
        repl.say("/new")
        await repl.reopened(first)
        await repl.said("write tests &", "task 2 started")
        await repl.quiet()
        assert await lines(repl, "/approve a") == ["/approve ask", "/approve all"]
        assert await lines(repl, "/fg ") == ["/fg 1", "/fg 2"]
        assert await offered(repl, "/kill 2") == [("/kill 2", "finished: write tests")]
        assert await lines(repl, "/session re") == ["/session resume"]
        assert await offered(repl, f"/session resume {first[:3]}") == [(f"/session resume {first}", "hello")]
        assert await offered(repl, "/resume ") == [(f"/resume {first}", "hello")]
        assert (await offered(repl, "/model fa"))[0] == ("/model fast", "openai/fast")
        assert "/model anthropic/claude-sonnet-4-5" in await lines(repl, "/model sonnet-4-5")
        assert await lines(repl, "/ok ") == ["/ok all"]
        assert await lines(repl, "/diff ma") == ["/diff main.py"]
        assert await lines(repl, "/status x") == []
        assert await lines(repl, "/nonsense x") == []


async def test_files_are_offered_anywhere_and_tasks_at_the_beginning(tmp_path: Path) -> None:
    files = {"main__py": "", "read me__md": ""}
    async with open_repl(tmp_path, lambda _asked: reply("done"), **files) as repl:
        (repl.program.repo / "src").mkdir()
        (repl.program.repo / "src" / "parser_core.py").write_text("")
        assert await lines(repl, "look at @prco") == ["look at @src/parser_core.py"]
        assert await lines(repl, "look at @main") == ["look at @main.py"]
        assert await lines(repl, "see @read") == ["see @read\\ me.md"]
        assert await lines(repl, "see @read\\ m") == ["see @read\\ me.md"]
        assert await lines(repl, "mail me@ma") == []
        assert await lines(repl, "see @./s") == ["see @./src/"]
        assert (await lines(repl, "@"))[0] == "@1"
        assert (await lines(repl, "@1")) == ["@1"]
        assert "see @1" not in await lines(repl, "see @1")


async def test_paths_of_a_shell_line_are_offered_on_tab_only(tmp_path: Path) -> None:
    async with open_repl(tmp_path, [], **{"main__py": "", "read me__md": ""}) as repl:
        assert await lines(repl, "!cat ma") == []
        assert await lines(repl, "!cat ma", asked=True) == ["!cat main.py"]
        assert await lines(repl, "!!wc<re", asked=True) == ["!!wc<'read me.md'"]
        (repl.program.repo / "-rf").write_text("")
        (repl.program.repo / "-r\x1b[31m").write_text("")
        assert await lines(repl, "!cat -r", asked=True) == ["!cat ./-rf"], "no option, and nothing unseen"


HARD_NAMES = {
    "two\nlines": ("@two\\nlines", "two⟨U+000A⟩lines"),
    "a\ttab": ("@a\\ttab", "a⟨U+0009⟩tab"),
    "esc\x1b[31m": ("@esc\\x1b[31m", "esc⟨U+001B⟩[31m"),
    "right\u202eleft.txt": ("@right\\u202eleft.txt", "right⟨U+202E⟩left.txt"),
    "quo\"te it's": ("@quo\"te\\ it's", "quo\"te it's"),
    "-rf": ("@-rf", "-rf"),
    "\U0001f600 smile": ("@\U0001f600\\ smile", "\U0001f600 smile"),
    "@scope": ("@\\@scope", "@scope"),
    "3": ("@./3", "3"),
}


@pytest.mark.parametrize("name", HARD_NAMES, ids=ascii)
async def test_a_hard_name_is_offered_and_what_is_inserted_means_that_file(tmp_path: Path, name: str) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("read")) as repl:
        (repl.program.repo / name).write_text("its own content")
        completer = completer_of(repl)
        event = CompleteEvent(completion_requested=True)
        inserted, shown = HARD_NAMES[name]
        beneath = "@./" + inserted.removeprefix("@").removeprefix("./").replace("\\@", "@")
        for typed, wanted in ((f"see @{name.strip('@')[0]}", inserted), (f"see @./{name[0]}", beneath)):
            offers = [one async for one in completer.get_completions_async(Document(typed), event)]
            offer = next(one for one in offers if one.display_text.removeprefix("./") == shown)
            assert offer.text == wanted
            line = typed[: len(typed) + offer.start_position] + offer.text
            again = [one.text async for one in completer.get_completions_async(Document(line), event)]
            assert offer.text in again, "what was inserted is still known"
            await repl.turn(line)
            said = repl.server.requests[-1].last_user_text
            assert "its own content" in said or "unchanged since you read it" in said


async def test_nothing_is_offered_before_the_session_is_open() -> None:
    completer = LateCompleter()
    assert [one async for one in completer.get_completions_async(Document("/he"), CompleteEvent())] == []
    assert list(completer.get_completions(Document("/he"), CompleteEvent())) == []


async def test_what_was_typed_before_the_session_was_open_gets_its_menu_without_another_key(
    tmp_path: Path,
) -> None:
    async with open_repl(tmp_path, []) as repl:
        completer = LateCompleter()
        async with running_repl(columns=100, completer=completer) as stage:
            stage.type("/expo")
            await stage.until(lambda: stage.repl.editor.buffer.complete_state is not None)
            completer.source = completer_of(repl)
            await stage.shows("Write the session to a file")


async def test_the_menu_opens_while_typing_and_tab_takes_an_offer(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        completer = completer_of(repl)
        async with running_repl(columns=100, completer=completer) as stage:
            stage.type("/expo")
            await stage.shows("Write the session to a file")
            stage.type("\t")
            await stage.until(lambda: stage.repl.editor.text == "/export")
            stage.type("\x03look at @ma")
            await stage.shows("main.py")
            stage.type("\t")
            await stage.until(lambda: stage.repl.editor.text == "look at @main.py")


async def test_keys_are_drawn_while_a_look_at_the_disk_takes_its_time(tmp_path: Path) -> None:
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(_text: str) -> Sequence[str]:
        asyncio.run_coroutine_threadsafe(released.wait(), loop).result(20)
        return ["main.py"]

    async with open_repl(tmp_path, []) as repl:
        completer = SessionCompleter(builtin_commands(), repl.context, lambda: str(repl.program.repo), slow)
        async with running_repl(columns=100, completer=completer) as stage:
            stage.type("see @")
            await stage.until(lambda: stage.repl.editor.text == "see @")
            stage.type("mai")
            await stage.shows("see @mai")
            released.set()
            await stage.shows("main.py")


async def test_files_are_offered_as_soon_as_they_are_listed_without_another_key(tmp_path: Path) -> None:
    looks: list[str] = []

    def listing(text: str) -> Sequence[str] | None:
        looks.append(text)
        return ["main.py"] if looks.count(text) > 3 else None

    async with open_repl(tmp_path, []) as repl:
        completer = SessionCompleter(
            builtin_commands(), repl.context, lambda: str(repl.program.repo), listing
        )
        async with running_repl(columns=100, completer=completer) as stage:
            stage.type("see @mai")
            await stage.shows("main.py")


async def test_a_menu_that_is_still_to_come_keeps_neither_esc_nor_the_next_letter(tmp_path: Path) -> None:
    def listing(text: str) -> Sequence[str] | None:
        return ["main.py"] if text == "main" else None

    async with open_repl(tmp_path, []) as repl:
        completer = SessionCompleter(
            builtin_commands(), repl.context, lambda: str(repl.program.repo), listing
        )
        async with running_repl(columns=100, completer=completer) as stage:
            tape = Tape(at=None)
            stage.send(tape.turn(), tape.reply())
            await stage.shows("waiting for the model")
            stage.type("@mai")
            await stage.until(lambda: stage.repl.editor.buffer.complete_state is not None)
            stage.type("\x1b")
            await stage.until(lambda: stage.intents == [Cancel()])
            stage.type("n")
            await stage.shows("main.py")


@pytest.mark.parametrize("typed", ["see @./\\x00/", "see @~\\x00/", "see @~\\ud800/a", "@/\\ud800/"])
async def test_nothing_is_offered_for_what_no_path_can_hold(tmp_path: Path, typed: str) -> None:
    async with open_repl(tmp_path, []) as repl:
        assert await lines(repl, typed) == []


def test_a_path_is_completed_as_in_a_shell(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / ".hidden").write_text("")
    (tmp_path / "src" / "a b.py").write_text("")
    assert in_folder(str(tmp_path), "s") == ["src/"]
    assert in_folder(str(tmp_path), "src/") == ["src/a b.py"]
    assert in_folder(str(tmp_path), "src/.") == ["src/.hidden"]
    assert in_folder(str(tmp_path), "nowhere/") == []
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("src")
    assert in_folder(str(tmp_path), "l") == ["link/", "loop"]


async def test_topics_of_the_manual_are_offered_with_what_they_are_about(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        assert ("/help sandbox", "what commands of the model can reach") in await offered(repl, "/help sand")
        assert await lines(repl, "/help permiss") == ["/help permissions"], (
            "a topic and a command of one name"
        )
