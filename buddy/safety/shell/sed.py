"""sed: its options, and a parser of its programs that knows only what neither writes, reads nor executes."""

from __future__ import annotations

import re

from buddy.safety.shell.options import parse
from buddy.safety.shell.place import JudgedCommand, RefusedError

OPTIONS = (
    "-nErsuz -e:text -l:num --quiet --silent --regexp-extended --separate --unbuffered --null-data "
    "--zero-terminated "
    "--expression:text --line-length:num --posix --debug --sandbox"
)
_PLAIN = "dDgGhHnNpPxFz="
_FLAGS = re.compile(r"[gpiIM0-9]*")


def sed(judged: JudgedCommand) -> None:
    """Judge one sed command."""
    given = parse(judged, OPTIONS)
    scripts = [value for name, value in given.options if name in ("-e", "--expression") and value is not None]
    operands = given.operands
    if not scripts:
        if not operands:
            raise RefusedError("sed without a program")
        scripts, operands = [operands[0]], operands[1:]
    for script in scripts:
        judge_program(script)
    for operand in operands:
        judged.read(operand)


def judge_program(program: str) -> None:
    """Refuse a sed program that is not known to only print."""
    _SedProgram(program).judge()


class _SedProgram:
    """Reads one program from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def judge(self) -> None:
        depth = 0
        while True:
            self._skip(" \t\n;")
            if self._at >= len(self._text):
                break
            self._addresses()
            command = self._next("a command")
            if command == "{":
                depth += 1
            elif command == "}":
                depth -= 1
                self._end()
            else:
                self._command(command)
        if depth:
            raise RefusedError("a sed program with an open group")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self, what: str) -> str:
        char = self._peek()
        if not char:
            raise RefusedError(f"a sed program that ends where {what} is expected")
        self._at += 1
        return char

    def _skip(self, chars: str) -> None:
        while self._peek() and self._peek() in chars:
            self._at += 1

    def _take(self, pattern: str) -> str:
        found = re.compile(pattern).match(self._text, self._at)
        text = found.group() if found else ""
        self._at += len(text)
        return text

    def _addresses(self) -> None:
        if self._address():
            self._skip(" \t")
            if self._peek() == ",":
                self._at += 1
                self._skip(" \t")
                if not self._take(r"[+~]\d+") and not self._address():
                    raise RefusedError("a sed program with an odd address")
        self._skip(" \t")
        while self._peek() == "!":
            self._at += 1
            self._skip(" \t")

    def _address(self) -> bool:
        if self._take(r"\d+(?:~\d+)?|\$"):
            return True
        if self._peek() == "/":
            self._at += 1
            self._until("/")
        elif self._peek() == "\\":
            self._at += 1
            self._until(self._delimiter())
        else:
            return False
        self._take(r"[IM]*")
        return True

    def _delimiter(self) -> str:
        char = self._next("a delimiter")
        if char.isalnum() or char.isspace() or char in "\\[];{}":
            raise RefusedError(f"a sed program with the odd delimiter {char!r}")
        return char

    def _until(self, delimiter: str, *, is_expression: bool = True) -> None:
        """Go past the next delimiter. Versions of sed disagree whether one inside [brackets] counts."""
        start = self._at
        while True:
            char = self._next(f"a {delimiter}")
            if char == "\\":
                self._next("an escaped character")
            elif char == "\n" and is_expression:
                raise RefusedError("a sed expression over several lines")
            elif char == delimiter:
                break
        if is_expression:
            body = re.sub(r"\\.", "", self._text[start : self._at - 1], flags=re.DOTALL)
            if re.search(r"\[[^\]]*\Z", re.sub(r"\[\^?\]?[^\]]*\]", "", body)):
                raise RefusedError("a sed expression with a delimiter inside brackets")

    def _command(self, command: str) -> None:
        if command in _PLAIN:
            self._end()
        elif command == "s":
            self._substitute()
        elif command == "y":
            delimiter = self._delimiter()
            self._until(delimiter, is_expression=False)
            self._until(delimiter, is_expression=False)
            self._end()
        elif command in "qQl":
            self._skip(" \t")
            self._take(r"\d+")
            self._end()
        elif command in "btT":
            self._skip(" \t")
            self._take(r"\w*")
            self._end()
        elif command == ":":
            self._skip(" \t")
            if not self._take(r"\w+"):
                raise RefusedError("a sed program with an odd label")
            self._end()
        elif command in "aic":
            self._added_text()
        elif command == "#":
            self._take(r"[^\n]*")
        else:
            raise RefusedError(f"the sed command {command} is not known to only print")

    def _substitute(self) -> None:
        delimiter = self._delimiter()
        self._until(delimiter)
        self._until(delimiter, is_expression=False)
        self._take(_FLAGS.pattern)
        self._end()

    def _added_text(self) -> None:
        """Text after a, i or c goes to the end of the line; anything that might go on is refused."""
        self._skip(" \t")
        text = self._take(r"(?:\\\n)?[^\n\\]+")
        if not text.strip("\\\n \t") or self._peek() == "\\":
            raise RefusedError("a sed program that adds text in an odd way")

    def _end(self) -> None:
        """Check that a command ends here."""
        self._skip(" \t")
        if self._peek() not in ("", ";", "\n", "}", "#"):
            raise RefusedError(f"a sed program with an odd {self._peek()} after a command")
