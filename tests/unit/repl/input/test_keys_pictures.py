"""Pictures that are pasted, dragged or fetched from the clipboard into the line."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.pictures import png
from tests.support.screen_harness import running_repl

PASTE = "\x1b[200~{}\x1b[201~"


async def test_a_dragged_picture_becomes_a_mention_apart_from_the_words(tmp_path: Path) -> None:
    (tmp_path / "My shot.png").write_bytes(png())
    async with running_repl(environ={"HOME": str(tmp_path)}) as stage:
        stage.type("look at" + PASTE.format(f"'{tmp_path}/My shot.png'") + "please")
        await stage.until(lambda: stage.repl.editor.text == "look at @~/My\\ shot.png please")


async def test_a_path_in_a_shell_line_and_any_other_text_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    async with running_repl(environ={"HOME": str(tmp_path)}) as stage:
        stage.type("!file " + PASTE.format(f"{tmp_path}/a.png"))
        await stage.until(lambda: stage.repl.editor.text == f"!file {tmp_path}/a.png")
        stage.type("\x03" + PASTE.format(f"{tmp_path}/b.png"))
        await stage.until(lambda: stage.repl.editor.text == f"{tmp_path}/b.png")


async def test_ctrl_v_says_what_is_missing() -> None:
    async with running_repl(columns=100, environ={"PATH": "/usr/bin:/bin"}) as stage:
        stage.type("draft\x16")
        await stage.shows("there is no desktop here, so no clipboard")
        assert stage.repl.editor.text == "draft"
