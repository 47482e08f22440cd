"""Something to hold on to: the first screen, the branch, the short help, the order of what `/` offers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from buddy import __version__
from buddy.repl.branch import Branch, branch_of
from buddy.repl.commands.help import short_help
from buddy.repl.commands.registry import builtin_commands
from buddy.repl.input.completion import command_offers
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Look
from buddy.repl.view.blocks import TableBlock, Welcome
from tests.fake_llm.script import call, reply
from tests.support.repl import open_repl

PLAIN = Painter(Look("mono", UNICODE, ansi=False))


def test_RU_A7_the_first_screen_says_where_one_is_and_where_to_go_on() -> None:
    block = Welcome(
        "0.1.0", "~/src/proj", "main*", "openai/gpt-5.2", "ask mode", ("AGENTS.md · /resume: fix it",)
    )
    assert PLAIN.ansi(block, 80).split("\n") == [
        "buddy 0.1.0 · ~/src/proj · main*",
        "openai/gpt-5.2 · ask mode",
        "type a task · / commands · ? keys",
        "AGENTS.md · /resume: fix it",
        "",
    ]
    assert max(map(len, PLAIN.ansi(block, 24).split("\n"))) < 24


async def test_RU_A7_a_new_session_begins_with_it(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        await repl.shows(f"buddy {__version__} · ", "ask mode\n", "type a task · / commands · ? keys\n")
        assert repl.paper.text().startswith("buddy ")


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("# branch.oid 12ab\n# branch.head main\n", "main"),
        ("# branch.oid 12ab\n# branch.head main\n1 .M N... 100644 100644 100644 a b main.py\n", "main*"),
        ("# branch.oid 12ab\n# branch.head main\nu UU N... 1 2 3 4 a b c main.py\n", "main*"),
        ("# branch.oid 12ab\n# branch.head main\n? new.py\n", "main"),
        ("# branch.oid 0123456789abcdef\n# branch.head (detached)\n", "01234567"),
        ("# branch.oid (initial)\n# branch.head main\n", "main"),
        ("", ""),
    ],
)
def test_the_branch_is_read_from_gits_status(status: str, shown: str) -> None:
    assert branch_of(status) == shown


async def test_the_branch_is_looked_at_again_only_when_it_may_have_changed() -> None:
    names = iter(["main", "main*"])
    seen: list[str] = []

    async def look() -> str:
        return next(names)

    branch = Branch(look, again_after_s=0)
    watching = asyncio.create_task(branch.watch(lambda: seen.append(branch.text)))
    assert await branch.first(5) == "main"
    for _ in range(20):
        await asyncio.sleep(0)
    assert seen == ["main"]
    branch.refresh()
    while len(seen) < 2:
        await asyncio.sleep(0)
    assert seen == ["main", "main*"]
    watching.cancel()
    await asyncio.wait({watching})


async def test_the_star_of_the_branch_follows_undo_and_redo(tmp_path: Path) -> None:
    script = [
        reply(call("read_file", path="a.txt")),
        reply(call("edit_file", path="a.txt", old="alpha", new="beta")),
        reply("Done."),
    ]
    async with open_repl(tmp_path, script, "--permission-mode", "edit", a__txt="alpha\n") as repl:
        branch = repl.context.branch
        await repl.said("Change it", "Done.")
        await repl.until(lambda: branch.text.endswith("*"), "a star after the edit")
        await repl.said("/undo", "Undone")
        await repl.until(lambda: not branch.text.endswith("*"), "no star after /undo")
        await repl.said("/redo", "Redone")
        await repl.until(lambda: branch.text.endswith("*"), "a star after /redo")


async def test_a_branch_that_is_not_known_in_time_is_left_out() -> None:
    assert await Branch().first(0.001) == ""


def test_RU_A7_useful_commands_are_offered_first_and_what_is_not_there_last() -> None:
    commands = builtin_commands()
    offers = command_offers(commands, "")
    last = [offer.text for offer in offers[-4:]]
    assert {"/add-dir", "/cd", "/login", "/logout"} == set(last)
    essential = {f"/{one.name}" for one in commands.all() if one.essential}
    assert {offer.text for offer in offers[: len(essential)]} == essential
    assert 15 <= len(essential) <= 20
    assert [offer.text for offer in command_offers(commands, "co")][:5] == [
        "/compact", "/context", "/copy", "/cost", "/commands",
    ]  # fmt: skip


def test_RU_A7_descriptions_are_not_cut_where_there_is_room() -> None:
    assert all(len(offer.about) < 300 for offer in command_offers(builtin_commands(), ""))
    painted = [offer.about for offer in command_offers(builtin_commands(), "approve")]
    assert painted[0].endswith("(for a time), none")


def test_RU_A7_the_help_fits_a_screen_and_names_the_rest() -> None:
    blocks = short_help(builtin_commands())
    lines = [line for block in blocks for line in PLAIN.ansi(block, 100).split("\n")[:-1]]
    assert len(lines) <= 40
    assert "/help all lists" in lines[-1]
    assert sum(isinstance(block, TableBlock) for block in blocks) == 2


async def test_RU_A7_all_commands_are_a_word_away(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        shown = await repl.said("/help all", "/redraw", "/worktree", "/quit")
        left_out = {one.name for one in builtin_commands().all() if f"/{one.name}" not in shown}
        assert left_out == set()
