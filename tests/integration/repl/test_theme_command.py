"""/theme: another look for what is on the screen, kept for the next start."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from buddy.repl.render.style import UNICODE, Look
from buddy.repl.view.blocks import NoteBlock
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import open_repl_in
from tests.support.screen_harness import running_repl
from tests.support.terminal import on_terminal


async def test_a_theme_is_shown_and_kept_beside_what_was_kept_before(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        kept = program.config / "settings.toml"
        kept.write_text('[display]\nvi = true\n\n[[rule]]\ntool = "web_search"\ndecision = "ask"\n')
        rule = tomllib.loads(kept.read_text())["rule"]
        async with open_repl_in(program, server) as repl:
            await repl.said("/theme", "theme auto, color auto; themes: auto, dark, light, plain")
            assert await repl.said("/theme dark", "kept") == f"❯ /theme dark\ntheme dark, saved in {kept}\n"
            assert repl.paper.drawn == ["theme dark"]
            assert tomllib.loads(kept.read_text()) == {"display": {"vi": True, "theme": "dark"}, "rule": rule}
            await repl.said("/theme", "theme dark, color auto; themes:")
            await repl.said("/theme plain", "there are no colours here (the terminal, NO_COLOR or")
            await repl.said("/theme blue", "expected auto, dark, light or plain, found 'blue'")
        async with open_repl_in(program, server) as repl:
            await repl.said("/theme", "theme plain, color auto")


async def test_a_theme_that_cannot_be_kept_is_shown_all_the_same(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        (program.config / "settings.toml.lock").mkdir()
        async with open_repl_in(program, server) as repl:
            await repl.said(
                "/theme light", "settings.toml: can't be written: Is a directory; nothing was saved"
            )
            assert repl.paper.drawn == ["theme light"]


async def test_the_screen_is_drawn_again_with_the_colours_of_another_theme() -> None:
    light, dark, plain = (Look(theme, UNICODE, ansi=True) for theme in ("light", "dark", "mono"))
    async with running_repl(look=light) as stage:

        def colour(text: str) -> str:
            row = next(at for at, line in enumerate(stage.terminal.screen.display) if text in line)
            return stage.terminal.screen.buffer[row][0].fg

        def prompt() -> str:
            return colour(UNICODE.prompt)

        stage.repl.print(NoteBlock("warning", "mind the gap"))
        await stage.shows("mind the gap")
        assert (colour("mind"), prompt()) == ("magenta", "blue")
        stage.repl.restyle(dark)
        await stage.until(lambda: colour("mind") == "brown")
        assert prompt() == "green"
        stage.repl.restyle(plain)
        await stage.until(lambda: (colour("mind"), prompt()) == ("default", "default"))
        stage.repl.restyle(light)
        await stage.until(lambda: (colour("mind"), prompt()) == ("magenta", "blue"))
        assert sum("mind the gap" in row for row in stage.terminal.everything()) == 1


@pytest.mark.slow
async def test_on_a_terminal_the_signs_stay_and_only_the_colours_change(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        async with on_terminal(program) as terminal:
            await terminal.line("/theme")
            await terminal.has_shown("theme auto, color auto")
            before = terminal.rows()[-1]
            assert UNICODE.dot in before
            await terminal.line("/theme dark")
            await terminal.has_shown("theme dark, saved in")
            await terminal.until(lambda: terminal.input_line() == "", "the line is empty")
            assert terminal.rows()[-1] == before
