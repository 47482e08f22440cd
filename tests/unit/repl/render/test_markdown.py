"""Streaming Markdown: nothing is lost, chunks don't matter, and slices mean what the whole means."""

from __future__ import annotations

import itertools
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from buddy.repl.render.markdown import CONTEXT_LINES, SLICE_LINES, TAB_WIDTH, MarkdownStream
from buddy.repl.view.blocks import Markdown
from buddy.safety.sanitise import clean

INGREDIENTS = [
    "word",
    " ",
    "\n",
    "\n\n",
    "- item\n",
    "* star\n",
    "1. one\n",
    "2. two\n",
    "  more\n",
    "    deep\n",
    "```py\n",
    "```\n",
    "~~~\n",
    "# Head\n",
    "---\n",
    "===\n",
    "> quote\n",
    "| a | b |\n",
    "|---|---|\n",
    "| 1 | 2 |\n",
    "\t",
    "**",
    "`",
    "<div>\n",
    "[x](http://e)",
    "é漢",
    "\x1b[31m",
    "\x07",
    "   ```\n",
    "  - nested\n",
    "````\n",
    "1.\n",
    "-\n",
]
messages = st.lists(st.sampled_from(INGREDIENTS), max_size=40).map("".join)


def stream_all(text: str, cuts: list[int]) -> tuple[list[Markdown], str]:
    """Feed a text cut at the given places; the closed blocks, and the sum of sources at the end."""
    stream = MarkdownStream()
    blocks: list[Markdown] = []
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        stream.feed(text[start:end])
        blocks += stream.take()
    blocks += stream.finish()
    return blocks, "".join(block.text for block in blocks)


@given(messages, st.lists(st.integers(0, 400), max_size=12))
@settings(max_examples=400, deadline=None)
def test_closed_blocks_and_tail_are_the_message_for_every_chunking(text: str, cuts: list[int]) -> None:
    blocks, sources = stream_all(text, cuts)
    assert sources == clean(text, tab_width=TAB_WIDTH)
    assert blocks == stream_all(text, [])[0]


@given(messages, st.integers(0, 400))
@settings(max_examples=200, deadline=None)
def test_what_is_closed_and_what_is_open_add_up_at_every_moment(text: str, cut: int) -> None:
    stream = MarkdownStream()
    stream.feed(text[:cut])
    closed = "".join(block.text for block in stream.take())
    assert (clean(text[:cut], tab_width=TAB_WIDTH)).startswith(closed + stream.tail)


PARTS = st.sampled_from(
    [
        "A paragraph of words\nover two lines.\n\n",
        "Another.\n\n",
        "## Heading\n",
        "Setext\n======\n",
        "- one\n- two\n  more\n- three\n\n",
        "- loose\n\n- items\n\n  with a paragraph\n\n",
        "1. first\n2. second\n   ```sh\n   ls\n   ```\n3. third\n\n",
        "* a\n  * b\n    * c\n* d\n\n",
        "```python\ndef f():\n\n    return 1\n```\n",
        "~~~\n# not a heading\n- no item\n~~~\n",
        "> quoted\n> text\n\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
        "***\n",
        "    indented code\n\n",
    ]
)


def outline(text: str) -> list[tuple[str, str, str]]:
    """Return the meaning of Markdown, without the starts and ends of lists (slices open one each). Indented
    code is sliced at its blank lines."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [
        (token.type, part.strip(), token.info)
        for token in tokens
        if not token.type.startswith(("bullet_list_", "ordered_list_"))
        for part in (token.content.split("\n\n") if token.type == "code_block" else [token.content])
    ]


@given(st.lists(PARTS, max_size=8))
@settings(max_examples=300, deadline=None)
def test_blocks_drawn_one_by_one_mean_what_the_whole_message_means(parts: list[str]) -> None:
    text = "".join(parts)
    blocks, _sources = stream_all(text, [])
    assert [token for block in blocks for token in outline(block.text)] == outline(text)


def test_a_paragraph_is_closed_by_the_blank_line_after_it() -> None:
    stream = MarkdownStream()
    stream.feed("one\ntwo")
    assert (stream.take(), stream.tail) == ([], "one\ntwo")
    stream.feed("\n\nthr")
    assert (stream.take(), stream.tail) == ([Markdown("one\ntwo\n\n")], "thr")
    assert stream.finish() == [Markdown("thr")]


def test_list_items_are_closed_one_by_one_and_join_each_other() -> None:
    stream = MarkdownStream()
    stream.feed("1. a\n2. b\n3. c")
    assert stream.take() == [Markdown("1. a\n")]
    assert stream.finish() == [Markdown("2. b\n", continues=True), Markdown("3. c", continues=True)]


def test_a_long_fence_is_closed_in_slices_with_context_for_the_highlighter() -> None:
    code = [f"line {n}" for n in range(SLICE_LINES * 4)]
    stream = MarkdownStream()
    stream.feed("```py\n" + "\n".join(code) + "\n```\n")
    slices = [block.fence for block in stream.take()]
    assert [fence.edge for fence in slices if fence] == ["first", "middle", "middle", "middle", "last"]
    assert [line for fence in slices if fence and fence.code for line in fence.code.split("\n")] == code
    assert all(len(fence.context.split("\n")) <= CONTEXT_LINES for fence in slices if fence)
    assert slices[3] is not None
    assert slices[3].context.endswith(f"line {SLICE_LINES * 3 - 1}")


def test_a_fence_that_never_closes_ends_with_the_message() -> None:
    stream = MarkdownStream()
    stream.feed("```\ncode\nmore")
    (block,) = stream.finish()
    assert block.fence is not None
    assert (block.fence.code, block.fence.edge) == ("code\nmore", "whole")


def test_the_cost_of_a_message_grows_with_its_length_and_not_with_its_square() -> None:
    def cost(rows: int) -> float:
        stream = MarkdownStream()
        begun = time.process_time()
        stream.feed("| a | b |\n|---|---|\n")
        for row in range(rows):
            stream.feed(f"| {row} | x |\n")
            stream.tail_end(300)
        return time.process_time() - begun

    cost(200)
    assert cost(16000) < max(cost(2000), 0.002) * 40
