"""Byte strings that do something to some terminal, or hide something from somebody, and what inert means."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable

from buddy.safety.sanitise import Sanitiser

SECRET_WORDS = b"PAYLOAD"


def sanitised(pieces: Iterable[bytes]) -> str:
    """Bytes as they come from a process or a file: decoded piece by piece, wherever they were cut, and made
    inert."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    sanitiser = Sanitiser()
    inert = [sanitiser.feed(decoder.decode(piece)) for piece in pieces]
    return "".join([*inert, sanitiser.feed(decoder.decode(b"", final=True)), sanitiser.finish()])


HOSTILE: dict[str, bytes] = {
    # Control strings: clipboard, title, links, images, tmux and screen pass-through
    "clipboard, BEL": b"a\x1b]52;c;PAYLOAD\x07b",
    "clipboard, ST": b"a\x1b]52;c;PAYLOAD\x1b\\b",
    "clipboard, never closed": b"a\x1b]52;c;PAYLOAD",
    "clipboard, C1 as UTF-8": b"a\xc2\x9d52;c;PAYLOAD\xc2\x9cb",
    "clipboard, raw C1": b"a\x9d52;c;x\x9cb",
    "clipboard read": b"a\x1b]52;c;?\x07b",
    "title": b"\x1b]0;PAYLOAD\x07",
    "icon name": b"\x1b]1;PAYLOAD\x07",
    "hyperlink": b"\x1b]8;;http://PAYLOAD.example\x1b\\click\x1b]8;;\x1b\\",
    "hyperlink with id": b"\x1b]8;id=1;file:///etc/PAYLOAD\x07click\x1b]8;;\x07",
    "colour query": b"\x1b]4;0;?\x07",
    "palette": b"\x1b]4;1;rgb:00/00/00\x07",
    "working directory": b"\x1b]7;file:///PAYLOAD\x07",
    "notification 9": b"\x1b]9;PAYLOAD\x07",
    "notification 777": b"\x1b]777;notify;PAYLOAD;b\x07",
    "notification 99": b"\x1b]99;;PAYLOAD\x1b\\",
    "iTerm image": b"\x1b]1337;File=inline=1:PAYLOAD\x07",
    "prompt mark": b"\x1b]133;A\x07$ ",
    "Linux palette": b"\x1b]P0ff0000PAYLOAD",
    "Linux palette reset": b"\x1b]R",
    "sixel": b"\x1bPq#0;2;0;0;0PAYLOAD\x1b\\",
    "DECRQSS": b"\x1bP$qmPAYLOAD\x1b\\",
    "termcap query": b"\x1bP+q544ePAYLOAD\x1b\\",
    "user keys": b"\x1bP0;1|17/PAYLOAD\x1b\\",
    "tmux pass-through": b"\x1bPtmux;\x1b\x1b]52;c;PAYLOAD\x07\x1b\\",
    "screen title": b"\x1bkPAYLOAD\x1b\\",
    "kitty image": b"\x1b_Gf=100,a=T;PAYLOAD\x1b\\",
    "APC, C1": b"\xc2\x9fGPAYLOAD\xc2\x9c",
    "PM": b"\x1b^PAYLOAD\x1b\\",
    "PM, C1": b"\xc2\x9ePAYLOAD\xc2\x9c",
    "SOS": b"\x1bXPAYLOAD\x1b\\",
    "SOS, C1": b"\xc2\x98PAYLOAD\xc2\x9c",
    "DCS, C1": b"\xc2\x90PAYLOAD\xc2\x9c",
    "string ended by CAN": b"\x1b]0;PAYLOAD\x18rest",
    "string ended by SUB": b"\x1b]0;PAYLOAD\x1arest",
    "string ended by another": b"\x1b]0;PAYLOAD\x1b]0;PAYLOAD\x07rest",
    "string with a line end": b"\x1b]0;PAYLOAD\nrest\x07",
    "string in a string": b"\x1bP\x1b]\x1b_\x1b^PAYLOAD",
    # Control sequences
    "colour": b"\x1b[31mred\x1b[0m",
    "true colour": b"\x1b[38;2;1;2;3mred",
    "colon colour": b"\x1b[38:2::1:2:3mred",
    "conceal": b"\x1b[8mhidden\x1b[28m",
    "clear screen": b"\x1b[2J\x1b[3J\x1b[H",
    "cursor up, rewrite": b"bad\x1b[1A\x1b[2Kgood",
    "cursor back": b"bad\x1b[3Dgood",
    "cursor home": b"\x1b[H",
    "alternate screen": b"\x1b[?1049h",
    "bracketed paste off": b"\x1b[?2004l",
    "mouse on": b"\x1b[?1003h\x1b[?1006h",
    "cursor off": b"\x1b[?25l",
    "synchronised": b"\x1b[?2026h",
    "device status": b"\x1b[6n",
    "device attributes": b"\x1b[c\x1b[>c\x1b[=c",
    "version query": b"\x1b[>0q",
    "window report": b"\x1b[21t",
    "window resize": b"\x1b[8;1;1t",
    "title stack": b"\x1b[22;0t",
    "scroll region": b"\x1b[1;1r",
    "insert lines": b"\x1b[999L",
    "repeat": b"a\x1b[999999b",
    "media copy": b"\x1b[5i",
    "soft reset": b"\x1b[!p",
    "kitty keyboard": b"\x1b[>1u",
    "rectangle": b"\x1b[65;1;1;9;9$x",
    "8-bit": b"\xc2\x9b31mred",
    "raw 8-bit": b"\x9b31mred",
    "cut": b"\x1b[38;5;",
    "control inside": b"\x1b[3\x081m",
    "line end inside": b"\x1b[3\n1m",
    "non-ASCII inside": "\x1b[3é1m".encode(),
    "escape inside": b"\x1b[3\x1b[31mx",
    "DEL inside": b"\x1b[3\x7f1mx",
    "huge parameters": b"\x1b[" + b"9;" * 5000 + b"m",
    "Linux function key": b"\x1b[[A",
    # Short escapes
    "reset": b"\x1bc",
    "save, restore": b"\x1b7\x1b8",
    "charset": b"\x1b(0lqqqk\x1b(B",
    "charset UTF-8 off": b"\x1b%@",
    "double height": b"\x1b#3",
    "alignment test": b"\x1b#8",
    "8-bit controls on": b"\x1b G",
    "keypad": b"\x1b=\x1b>",
    "reverse index": b"\x1bM",
    "next line": b"\x1bE\xc2\x85",
    "index C1": b"\xc2\x84",
    "single shift": b"\x1bN\x1bO\xc2\x8e\xc2\x8f",
    "VT52": b"\x1b[?2l\x1bY  ",
    "lone at the end": b"text\x1b",
    "doubled": b"\x1b\x1b\x1b[31m",
    "before a letter beyond ASCII": "\x1bé".encode(),
    "before a line end": b"\x1b\nx",
    "locked memory": b"\x1bl\x1bm",
    # Single controls
    "NUL": b"a\0b",
    "BEL": b"\x07" * 100,
    "backspace": b"rm -rf /\b\b\b\b\b\b\b\bls      ",
    "carriage return": b"rm -rf /\rls      ",
    "vertical tab, form feed": b"a\x0bb\x0cc",
    "shift out": b"\x0eqqq\x0f",
    "enquiry": b"\x05",
    "XON XOFF": b"\x13\x11",
    "CAN SUB": b"\x18\x1a",
    "separators": b"\x1c\x1d\x1e\x1f",
    "DEL": b"abc\x7f\x7f\x7f",
    "every C0": bytes(range(32)),
    "every C1": "".join(map(chr, range(0x7F, 0xA0))).encode(),
    "every byte": bytes(range(256)),
    # Bytes that are not UTF-8
    "overlong ESC": b"\xc0\x9b[31m",
    "overlong ESC, three": b"\xe0\x80\x9b[31m",
    "cut character": b"abc\xe2\x82",
    "lone continuation": b"\x80\x9b\x9d\x90",
    "encoded surrogate": b"\xed\xa0\x80\xed\xb0\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80\xf8\x88\x80\x80\x80",
    "UTF-16": "\x1b[31mred".encode("utf-16"),
    "UTF-7": b"+ABs-[31m",
    "cut, then ESC": b"\xe2\x82\x1b[31m",
    "ESC between bytes": b"\xe2\x1b[31m\x82\xac",
    # Direction
    "override": "user\u202e txt.exe".encode(),
    "embedding": "\u202aa\u202bb\u202c".encode(),
    "isolates": "\u2066a\u2067b\u2068c\u2069".encode(),
    "marks of direction": "\u200ea\u200fb\u061cc".encode(),
    "left-to-right override": "\u202dabc".encode(),
    "Trojan source": "if x:\u202e \u2066# admin\u2069 \u2066return".encode(),
    # Invisible
    "zero-width space": "r\u200bm".encode(),
    "zero-width joiners": "a\u200cb\u200dc".encode(),
    "word joiner": "a\u2060b\ufeffc".encode(),
    "soft hyphen": "a\u00adb".encode(),
    "invisible operators": "a\u2061\u2062\u2063\u2064b".encode(),
    "deprecated format": "\u206a\u206b\u206c\u206d\u206e\u206f".encode(),
    "tags": ("a" + "".join(chr(0xE0000 + ord(letter)) for letter in "PAYLOAD")).encode(),
    "language tag": "\U000e0001".encode(),
    "cancel tag": "🏴\U000e0067\U000e0062\U000e007f".encode(),
    "variation selectors": ("a" + "".join(map(chr, range(0xFE00, 0xFE10)))).encode(),
    "variation selectors, more": ("a" + "".join(map(chr, range(0xE0100, 0xE01F0)))).encode(),
    "Mongolian": "a\u180b\u180c\u180d\u180e\u180fb".encode(),
    "grapheme joiner": "a\u034f\u034f\u034fb".encode(),
    "Hangul fillers": "a\u115f\u1160\u3164\uffa0b".encode(),
    "Khmer": "a\u17b4\u17b5b".encode(),
    "interlinear": "\ufff9a\ufffab\ufffb".encode(),
    "musical format": "\U0001d173\U0001d17a".encode(),
    "shorthand": "\U0001bca0\U0001bca3".encode(),
    "hieroglyph format": "𓀀\U00013430\U00013440𓀁".encode(),
    "Arabic format": "\u0600\u06dd\u070f\u08e2".encode(),
    "unassigned, ignorable": "\u2065\ufff0\U000e0fff".encode(),
    "private use": "\ue000\uf8ff\U000f0000\U0010fffd".encode(),
    "noncharacters": "\ufdd0\ufdef\ufffe\uffff\U0001fffe\U0010ffff".encode(),
    "object replacement": "\ufffc".encode(),
    "line separator": "a\u2028b\u2029c".encode(),
    "ESC picture": "␛[31m".encode(),
    # Too much
    "marks": ("e" + "\u0301" * 1000).encode(),
    "marks of other kinds": ("Z" + "\u0489\u20dd\u0338" * 100).encode(),
    "marks on nothing": ("\u0301" * 50 + "\n" + "\u0301" * 50).encode(),
    "marks on an emoji": ("😀" + "\u20e0" * 50).encode(),
    "marks beyond the plane": ("a" + "\U0001d167" * 50).encode(),
    "Thai tower": ("ก" + "็" * 200).encode(),
    "Hangul vowels": ("ᄀ" + "\u1161" * 200).encode(),
    "joined family": "👨\u200d👩\u200d👧".encode(),
    "endless join": ("👨\u200d" * 500).encode(),
    "blank lines": b"a" + b"\n" * 5000 + b"b",
    "blank lines with spaces": b"a" + b" \n" * 5000 + b"b",
    "tabs": b"\t" * 500,
    "tabs and spaces": b"a\t \tb",
    "long line": b"x" * 20000,
    # Together
    "fake approval": b"\x1b[2J\x1b[H Allow this command? [y/N] y\x1b[8m",
    "split ESC": b"\x1b" + b"[" + b"31m",
    "C1 in a file name": "a\u009b2Jb.txt".encode(),
    "OSC in a branch name": b"feature/\x1b]52;c;PAYLOAD\x07x",
    "markup": b"[/x] [link=http://e]y[/link] <b> & \\x1b",
    "ANSI C quotes": b"$'\\033[31m'",
    "marks after an escape": "a\x1b[31m\u0301\u0301".encode(),
    "tag text with sequence": "\U000e0041\x1b]0;PAYLOAD\x07".encode(),
}

_WIDTHLESS = re.compile("[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u00ad\u034f\u115f\u1160\u3164\uffa0]")


def harm(text: str) -> str:
    """Why a text is not inert; "" when it is. Written from the definition, not from the sanitiser."""
    marks = 0
    for sign in text:
        if sign != "\n" and unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
            return f"U+{ord(sign):04X} came through"
        if _WIDTHLESS.match(sign) or 0xFE00 <= ord(sign) <= 0xFE0F or 0xE0000 <= ord(sign) <= 0xE0FFF:
            return f"invisible U+{ord(sign):04X} came through"
        marks = marks + 1 if unicodedata.category(sign) in {"Mn", "Me"} else 0
        if marks > 8:
            return "more than eight marks on a base"
    if SECRET_WORDS.decode() in text:
        return "the inside of a sequence is shown"
    if re.search(r"\n(?: *\n){5}", text):
        return "a long run of blank lines"
    return ""
