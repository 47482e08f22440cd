"""Blocks as lines: what is shown of Markdown, tools, approvals, and what hostile text cannot do."""

from __future__ import annotations

import time

import msgspec
import pytest

from buddy.agent.display import Checklist, ChecklistItem, Command, Diff, FileDiff, FileList, Picture, Plain
from buddy.agent.messages import Call
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import ASCII, UNICODE, Look
from buddy.repl.render.text import cells, wrap
from buddy.repl.view.blocks import (
    ApprovalAnswered,
    ApprovalAsked,
    Block,
    Expanded,
    Fence,
    Markdown,
    NoteBlock,
    PlainText,
    TableBlock,
    TaskHeading,
    Thought,
    ToolCall,
    TurnSummary,
    UserPrompt,
)

PLAIN = Painter(Look("mono", UNICODE, ansi=False))
COLOR = Painter(Look("default", UNICODE, ansi=True))


def drawn(block: Block, columns: int = 60, painter: Painter = PLAIN) -> list[str]:
    return painter.ansi(block, columns).split("\n")[:-1]


def call(
    display: object = Plain(""), *, title: str = "run_shell x", status: str = "ok", text: str = ""
) -> ToolCall:
    return ToolCall(Call("c", "run_shell", "{}"), title, "high", status, text, display, 2.0, False, 0)


def test_markdown_is_drawn_with_wrapped_lines_lists_and_tables() -> None:
    text = "# Head\n\nSome **bold** and `code` text that is wrapped.\n\n1. one\n2. two\n   - deep\n\n> said\n"
    assert drawn(Markdown(text), 30) == [
        "Head",
        "",
        "Some bold and code text that",
        "is wrapped.",
        "",
        "1. one",
        "2. two",
        "   • deep",
        "",
        "▎ said",
    ]
    assert drawn(Markdown("| key | value |\n|---|---|\n| a | 1 |\n"), 30) == [
        "key │ value",
        "────┼──────",
        "a   │     1",
    ]


def test_a_list_item_of_a_slice_keeps_its_number() -> None:
    assert drawn(Markdown("7. seven\n", continues=True)) == ["7. seven"]


def test_code_is_coloured_and_never_cut() -> None:
    fence = Fence("python", "def f(): return 'a long string that does not fit'", "", "whole")
    lines = drawn(Markdown("```", fence=fence), 30, COLOR)
    assert lines[0] == "\x1b[2m▎ python\x1b[m"
    assert "35mdef" in lines[1]
    named, *code = drawn(Markdown("```", fence=fence), 30)
    assert named == "▎ python"
    assert all(line.startswith("▎ ") for line in code)
    assert "".join(line.removeprefix("▎ ") for line in code).replace(" ", "") == fence.code.replace(" ", "")


def test_a_slice_of_a_fence_is_coloured_as_in_the_whole() -> None:
    fence = Fence("python", "still a string\n'''", "x = '''", "last")
    assert drawn(Markdown("", fence=fence), 40, COLOR) == [
        "\x1b[2m▎ \x1b[0;32mstill a string\x1b[m",
        "\x1b[2m▎ \x1b[0;32m'''\x1b[m",
    ]


def test_output_of_tools_is_folded_behind_a_gutter() -> None:
    block = call(Command("x", "\n".join(f"row {n}" for n in range(20)), 1, "", 2.0))
    assert drawn(block) == [
        "✓ run_shell x · exit 1 · 2 s",
        "│ … 14 more lines (Ctrl+O)",
        *(f"│ row {n}" for n in range(14, 20)),
    ]
    assert drawn(Expanded(block))[1:] == [f"│ row {n}" for n in range(20)]
    assert PLAIN.is_folded(block, 60)
    assert not PLAIN.is_folded(call(Plain("short")), 60)


def test_every_display_has_its_picture() -> None:
    diff = Diff(
        (FileDiff("a.py", "update", "@@ -1 +1 @@\n-old\n+new", 1, 1), FileDiff("b", "move", "", 0, 0, "c"))
    )
    assert drawn(call(diff))[1:] == [
        "│ edit a.py  +1 −1",
        "│ 1 −old",
        "│ 1 +new",
        "│ move b → c  +0 −0",
    ]
    assert drawn(call(FileList("2 of 9", ("a", "b"), 9))) == [
        "✓ run_shell x · 2 of 9 · 2 s",
        "│ a",
        "│ b",
        "│ and 7 more",
    ]
    items = (ChecklistItem("one", "done"), ChecklistItem("two", "active"), ChecklistItem("three", "pending"))
    assert drawn(call(Checklist(items)))[1:] == ["│ ☑ one", "│ ◐ two", "│ ☐ three"]
    assert drawn(call(Picture("p.png", "640x480")))[1:] == ["│ 640x480 (p.png)"]
    assert drawn(call(Plain(""), status="error", text="no such file"))[1:] == ["│ no such file"]


def test_progress_bars_show_their_last_state() -> None:
    assert drawn(call(Command("x", "10%\r50%\r100%\r\ndone\r\n", 0, "", 2.0)))[1:] == ["│ 100%", "│ done"]


def test_the_rest_of_the_blocks() -> None:
    assert drawn(UserPrompt("hello\nyou", "prompt", 0, 0)) == ["▌ hello", "▌ you"]
    assert drawn(UserPrompt("go on", "steer", 1, 2)) == ["▌ @2 steering: go on", "▌ [1 picture]"]
    pasted = drawn(UserPrompt("\n".join("abcdefghijklmnopqrstuvwxyz" * 2), "prompt", 0, 0))
    assert pasted[-2:] == ["▌ j", "▌ … 42 more lines (Ctrl+O)"]
    assert len(drawn(Expanded(UserPrompt("\n".join("a" * 200), "prompt", 0, 0)))) == 200
    assert drawn(Thought("because", 12.3)) == ["· thought for 12 s (Ctrl+O)"]
    assert drawn(Expanded(Thought("because", 12.3))) == ["· thought for 12 s", "▎ because"]
    assert drawn(ApprovalAnswered("git push", 1, "once", "you")) == ["▸ approved once: git push"]
    assert drawn(ApprovalAnswered("git push", 1, "withdrawn", "turn ended")) == [
        "▸ withdrawn (turn ended): git push"
    ]
    assert drawn(NoteBlock("error", "broken [/x]")) == ["broken [/x]"]
    assert drawn(TurnSummary("completed", "", 2, 3, 65.0, 1200, 1, "")) == [
        "done · 1 m 5 s · 3 calls · 1.2k tokens"
    ]
    assert drawn(TurnSummary("failed", "no key", 0, 0, 0.1, 0, 2, "tests")) == [
        "task 2 tests: failed (/retry 2) · 0.1 s",
        "no key",
    ]
    assert drawn(TaskHeading(2, "tests")) == ["── task 2 tests ────────"]
    assert drawn(TableBlock(("id", "what"), (("1", "one"),))) == ["id │ what", "───┼─────", " 1 │ one"]
    assert drawn(PlainText("a\n\nb")) == ["a", "", "b"]
    assert drawn(Markdown("\n\n", continues=True)) == []


def test_no_line_is_wider_than_the_terminal_less_one() -> None:
    wide = "漢字テスト " * 40 + "x" * 200
    table = "| a | b |\n|---|---|\n| " + "long " * 40 + " | 漢字 |\n"
    blocks: list[Block] = [
        Markdown(f"# {wide}\n\n- {wide}\n\n> {wide}\n\n`{wide}`\n\n{table}"),
        Markdown("", fence=Fence("python", f"s = '{wide}'", "", "whole")),
        call(Command("x", wide, 0, "", 1.0), title=wide),
        UserPrompt(wide, "steer", 0, 3),
        ApprovalAsked("q", 1, 1, wide, "high", wide, Command(wide, "", None, "", 0)),
        NoteBlock("info", wide),
        TableBlock(tuple("abcdefghij"), (tuple([wide] * 10),)),
    ]
    for columns in (12, 30, 80):
        for block in blocks:
            assert max(map(cells, drawn(block, columns))) <= columns - 1


@pytest.mark.parametrize("text", ["[/x]", "[link=http://e]y[/link]", "<b> &", "list[int]", "a\\[b]"])
def test_SEC_081_markup_in_output_is_shown_literally(text: str) -> None:
    assert drawn(call(Command("x", text, 0, "", 2.0)))[1:] == [f"│ {text}"]
    assert drawn(NoteBlock("info", text)) == [text]


HOSTILE = "a\x1b]52;c;aGk=\x07b\x1b[2Jc\x9b31md\u202ee\u200bf\U000e0041g\x00h"


@pytest.mark.parametrize(
    "block",
    [
        call(Command(HOSTILE, HOSTILE, 1, HOSTILE, 2.0), title=HOSTILE),
        call(Plain(HOSTILE, HOSTILE), text=HOSTILE),
        call(Diff((FileDiff(HOSTILE, "update", HOSTILE, 1, 1, HOSTILE),))),
        call(FileList(HOSTILE, (HOSTILE,), 1)),
        call(Checklist((ChecklistItem(HOSTILE, "active"),))),
        call(Picture(HOSTILE, HOSTILE)),
        UserPrompt(HOSTILE, "prompt", 0, 0),
        Thought(HOSTILE, 1.0),
        ApprovalAsked("q", 1, 1, HOSTILE, "high", HOSTILE, Plain(HOSTILE, HOSTILE)),
        ApprovalAnswered(HOSTILE, 1, "rule", HOSTILE),
        NoteBlock("error", HOSTILE),
        TurnSummary("failed", HOSTILE, 1, 1, 1.0, 1, 1, HOSTILE),
        TaskHeading(1, HOSTILE),
        TableBlock((HOSTILE,), ((HOSTILE,),)),
        PlainText(HOSTILE),
        Markdown("&#x202E;&#27;&#x9b;&#x200b; [a](http://e/\u202e) ![p](\u202e) `&#x202E;`"),
        Markdown("x", fence=Fence("py\x1b[2J", "a", "", "whole")),
        Markdown("```&#x202E;\nx\n```"),
    ],
    ids=lambda block: type(block).__name__,
)
def test_SEC_079_hostile_text_is_inert_in_every_block(block: Block) -> None:
    for shown in (block, Expanded(block) if isinstance(block, (ToolCall, Thought, ApprovalAsked)) else block):
        text = "".join(drawn(shown, 70))
        assert not [
            hex(ord(c)) for c in text if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u200b\U000e0041"
        ]


def test_text_that_is_laid_out_with_blanks_goes_on_below_its_first_word() -> None:
    text = "Welcome. It needs a model:\n  no model is set: put one into the file you have\n\n      deep words"
    assert drawn(PlainText(text), columns=25) == [
        "Welcome. It needs a",
        "model:",
        "  no model is set: put",
        "  one into the file you",
        "  have",
        "",
        "      deep words",
    ]
    assert drawn(PlainText(" " * 50 + "a word that wraps"), columns=15) == [
        "       a word",
        "       that",
        "       wraps",
    ]
    assert drawn(PlainText("")) == []


def test_SEC_082_an_approval_shows_what_would_not_be_seen() -> None:
    command = "rm \u202e\u200b\U000e0041" + " " * 300 + "x" + "\n" * 50 + "y"
    block = ApprovalAsked("q", 1, 1, "run_shell", "high", "because", Command(command, "", None, "", 0))
    text = "\n".join(drawn(block, 70))
    assert all(
        part in text for part in ("⟨U+202E⟩", "⟨U+200B⟩", "⟨U+E0041⟩", "⟨300 spaces⟩", "⟨49 blank lines⟩")
    )


def test_an_approval_shows_what_a_command_would_delete_below_it() -> None:
    shown = Command("rm -rf build", "deletes 214 files under build/, 3 not in git", None, "", 0)
    assert drawn(ApprovalAsked("q", 1, 1, "run_shell", "high", "why", shown))[-2:] == [
        "│ rm -rf build",
        "│ deletes 214 files under build/, 3 not in git",
    ]


def test_an_approval_shows_what_is_done_and_what_there_is_to_know_about_it() -> None:
    shown = Plain("git commit -m x\u200b", "it runs .git/hooks/pre-commit")
    assert drawn(ApprovalAsked("q", 1, 1, "git_commit", "medium", "why", shown))[-2:] == [
        "│ git commit -m x⟨U+200B⟩",
        "│ it runs .git/hooks/pre-commit",
    ]
    told = ApprovalAsked("q", 1, 1, "delete_file", "high", "why", Plain("delete a.txt (goes to the trash)"))
    assert drawn(told)[-1] == "│ delete a.txt (goes to the trash)"


def test_SEC_083_a_copy_of_the_approval_stands_behind_a_gutter() -> None:
    copy = "\n".join(drawn(ApprovalAsked("q", 1, 1, "git push", "high", "why", Plain(""))))
    assert all(line.startswith("│ ") for line in drawn(call(Command("x", copy, 0, "", 2.0)))[1:])


def test_SEC_084_what_a_reference_stands_for_is_printed() -> None:
    assert drawn(Markdown("[good.example][1]\n\n[1]: https://evil.example 'title'")) == [
        "[good.example][1]",
        "",
        "[1]: https://evil.example 'title'",
    ]


def test_SEC_084_the_target_of_a_link_is_printed() -> None:
    assert drawn(Markdown("[http://good.example](http://evil.example)")) == [
        "http://good.example (http://evil.example)"
    ]
    assert drawn(Markdown("<http://good.example>")) == ["http://good.example"]


def test_without_unicode_the_glyphs_are_ascii() -> None:
    painter = Painter(Look("mono", ASCII, ansi=False))
    items = (ChecklistItem("one", "done"), ChecklistItem("two", "active"))
    for block in (
        call(Checklist(items)),
        Markdown("- a\n\n> b\n\n***\n"),
        TurnSummary("completed", "", 1, 1, 1, 1, 1, ""),
    ):
        assert painter.ansi(block, 60).isascii()


def test_what_the_person_wants_to_see_decides_folding_and_thoughts() -> None:
    from buddy.agent.display import Plain
    from buddy.agent.messages import Call
    from buddy.repl.render.painter import Painter
    from buddy.repl.render.style import choose_look
    from buddy.repl.view.blocks import Thought, ToolCall

    plain = choose_look(
        environ={"TERM": "dumb"}, color="never", theme="auto", encoding="utf-8", is_terminal=True
    )
    short = Painter(msgspec.structs.replace(plain, fold_lines=2, thoughts=False))
    output = Plain("six lines", "\n".join(f"line {number}" for number in range(6)))
    call = ToolCall(Call("c", "t", "{}"), "t", "low", "ok", "", output, 0, cached=False, task_id=0)
    assert "line 1" in short.ansi(call, 80)
    assert "line 2" not in short.ansi(call, 80)
    assert "line 5" in Painter(plain).ansi(call, 80)
    assert short.ansi(Thought("hm", 1), 80) == ""
    assert "thought for" in Painter(plain).ansi(Thought("hm", 1), 80)
    seen = msgspec.structs.replace(call, already_shown=True)
    assert "line 0" not in Painter(plain).ansi(seen, 80)


def test_a_narrow_table_breaks_between_words_or_becomes_labelled_records() -> None:
    rows = (("apply_patch", "medium", "Change several files with one patch"),)
    table = TableBlock(("tool", "risk", "what it does"), rows)
    assert drawn(table, 40) == [
        "tool        │ risk   │ what it does",
        "────────────┼────────┼─────────────────",
        "apply_patch │ medium │ Change several",
        "            │        │ files with one",
        "            │        │ patch",
    ]
    assert drawn(table, 24) == [
        "tool: apply_patch",
        "risk: medium",
        "what it does: Change",
        "  several files with",
        "  one patch",
    ]


def test_the_name_of_a_session_stays_in_one_piece_in_a_table() -> None:
    row = ("7b3c-ae61-b107-a2c1", "2026-11-22 09:49", "what does main.py do, and fix the bug")
    assert drawn(TableBlock((), (row,)), 62) == [
        "7b3c-ae61-b107-a2c1 │ 2026-11-22 09:49 │ what does main.py",
        "                    │                  │ do, and fix the bug",
    ]


def test_words_of_a_table_are_broken_only_where_nothing_else_helps() -> None:
    row = ("anthropic/claude-sonnet-4-5", "200,000", "cache pdf reasoning tools vision")
    assert drawn(TableBlock(("model", "context", "can"), (row,)), 60) == [
        "model                       │ context │ can",
        "────────────────────────────┼─────────┼────────────────────",
        "anthropic/claude-sonnet-4-5 │ 200,000 │ cache pdf reasoning",
        "                            │         │ tools vision",
    ]


def test_money_and_missing_numbers_stand_on_the_right() -> None:
    rows = (("a", "$1,204.10", "3"), ("b", "-$4.20", "–"), ("c", "€ 3", ""))
    assert drawn(TableBlock((), rows), 40) == [
        "a │ $1,204.10 │ 3",
        "b │    -$4.20 │ –",
        "c │       € 3 │",
    ]


def test_rows_of_a_written_table_stand_apart_where_one_is_wrapped() -> None:
    text = "| a | b |\n|---|---|\n| x | y |\n| many words that wrap | z |\n| c | d |\n"
    assert drawn(Markdown(text), 20) == [
        "a               │ b",
        "────────────────┼──",
        "x               │ y",
        "                │",
        "many words that │ z",
        "wrap            │",
        "                │",
        "c               │ d",
    ]
    assert len(drawn(Markdown(text), 40)) == 5


def test_cells_stand_at_the_side_of_their_column_and_names_right_above_the_rule() -> None:
    text = "| a number of files | size | what |\n|:-:|--:|---|\n| 1 | `12 kB` | one of the first ones |\n"
    assert drawn(Markdown(text), 30) == [
        "a number │       │",
        "of files │  size │ what",
        "─────────┼───────┼───────────",
        "   1     │ 12 kB │ one of the",
        "         │       │ first ones",
    ]


def test_a_table_without_a_header_has_no_rule() -> None:
    assert drawn(TableBlock((), (("a", "b"),)), 20) == ["a │ b"]


def test_a_word_ten_times_as_long_takes_about_ten_times_as_long() -> None:
    def seconds(count: int) -> float:
        began = time.process_time()
        assert len(wrap([("", "Ì" * count)], 98)) == -(-count // 98)
        return time.process_time() - began

    short = min(seconds(10_000) for _ in range(3))
    assert seconds(100_000) < 40 * short  # 100 times when the rest is measured at every cut
