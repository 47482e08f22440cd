"""Bytes on their way to a terminal: one that is slow, one that is gone, titles that are hostile."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import termios

from prompt_toolkit.data_structures import Size

from buddy.repl.screen.output import FrameOutput, TerminalWriter, cell_pixels, clear_screen, encode


def collected() -> tuple[FrameOutput, list[str]]:
    written: list[str] = []
    size = Size(rows=24, columns=80)
    return FrameOutput(written.append, lambda: size, fd=-1, encoding="utf-8"), written


async def test_REL_059_a_terminal_that_is_not_read_never_blocks_and_loses_nothing() -> None:
    master, slave = pty.openpty()
    drained: list[bool] = []
    gone: list[bool] = []
    writer = TerminalWriter(slave, lambda: gone.append(True))
    writer.attach(asyncio.get_running_loop(), lambda: drained.append(True))
    text = b"".join(b"%06d." % number for number in range(40_000))
    writer.write(text)
    assert writer.is_stalled
    assert os.get_blocking(slave)
    read = b""
    while len(read) < len(text):
        read += await asyncio.to_thread(os.read, master, 65536)
    assert read == text
    while not drained:
        await asyncio.sleep(0.001)
    assert (drained, gone, writer.is_stalled) == ([True], [], False)
    writer.close()
    os.close(master)
    os.close(slave)


async def test_REL_059_a_terminal_that_is_gone_is_noticed_once() -> None:
    master, slave = pty.openpty()
    gone: list[bool] = []
    writer = TerminalWriter(slave, lambda: gone.append(True))
    os.close(master)
    writer.write(b"one")
    writer.write(b"two")
    assert (gone, writer.gone, writer.is_stalled) == ([True], True, False)
    writer.close()
    os.close(slave)


def test_a_terminal_that_cannot_be_opened_again_is_written_to_as_it_is() -> None:
    reading, writing = os.pipe()
    writer = TerminalWriter(writing, lambda: None)
    writer.write(b"text")
    writer.close()
    assert os.read(reading, 10) == b"text"
    os.close(reading)
    os.close(writing)


def test_modes_switched_there_and_back_in_a_frame_are_not_mentioned() -> None:
    output, written = collected()
    output.enable_bracketed_paste()
    output.flush()
    with output.frame():
        output.disable_bracketed_paste()
        output.hide_cursor()
        output.write_raw("x")
        with output.frame():
            output.show_cursor()
            output.flush()
        output.enable_bracketed_paste()
    output.forget_modes()
    output.flush()
    assert written == ["\x1b[?2004h", "\x1b[?2026hx\x1b[?2026l", "\x1b[?2004h"]


def test_emoji_are_written_apart_where_terminals_disagree_about_their_width() -> None:
    output, written = collected()
    for cell in ("\U0001f469\u200d", "\U0001f467", "❤\ufe0f", "\u0915\u094d\u200d", "e\u0301"):
        output.write(cell)
    output.flush()
    assert written == ["\U0001f469\U0001f467❤\u0915\u094d\u200de\u0301"]


def test_SEC_085_a_title_is_short_and_holds_no_control_characters() -> None:
    output, written = collected()
    output.set_title("a\x07b\x1b]52;c;aGk=\x07\n\x9dc\u202e" + "long " * 60)
    output.flush()
    (title,) = written
    assert title.startswith("\x1b]2;")
    assert title.endswith("\x07")
    inside = title[4:-1]
    assert len(inside) <= 80
    assert inside.isprintable()


def test_REL_063_signs_the_terminal_has_not_are_replaced_by_such_as_look_alike() -> None:
    assert encode("\u25b8 1 \u2026 \u201cit\u2019s\u201d \u65e5", "ascii") == b'! 1 ~ "it\'s" ?'
    assert encode("caf\u00e9 \u2192", "latin-1") == b"caf\xe9 >"
    assert encode("\u25b8 \u2026", "utf-8").decode() == "\u25b8 \u2026"
    assert encode("half \ud800", "utf-8") == b"half ?"


def test_a_row_begins_with_what_the_driver_of_the_terminal_leaves_to_us() -> None:
    main, side = pty.openpty()
    output = FrameOutput(lambda _text: None, lambda: Size(24, 80), fd=side, encoding="utf-8")
    modes = termios.tcgetattr(side)
    for flags, expected in ((termios.OPOST | termios.ONLCR, "\n"), (termios.OPOST, "\r\n"), (0, "\r\n")):
        modes[1] = flags
        termios.tcsetattr(side, termios.TCSANOW, modes)
        assert output.line_end() == expected
    os.close(main)
    os.close(side)
    assert output.line_end() == "\r\n"


def test_the_pixels_of_a_cell_are_those_the_terminal_states() -> None:
    main, side = pty.openpty()
    for stated, expected in (
        ((24, 80, 720, 432), (9, 18)),
        ((24, 80, 724, 436), (9, 18)),  # with a border
        ((24, 80, 0, 0), None),
        ((24, 80, 80, 24), None),
        ((0, 0, 720, 432), None),
        ((1, 1, 60_000, 60_000), None),
    ):
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", *stated))
        assert cell_pixels(side) == expected
    os.close(main)
    os.close(side)
    assert cell_pixels(side) is None


def test_a_cleared_screen_has_no_pictures_of_kitty_either() -> None:
    assert clear_screen(2, has_graphics=True) == "\x1b_Ga=d,d=a,q=2\x1b\\" + clear_screen(2)
    assert "\x1b_G" not in clear_screen(2)
