"""A strict tokeniser for the part of bash that can be judged. Everything else raises `UnclearError`.

It must never read a command differently from bash; a refusal costs only a question. `tree_sitter` is the
second parser, and `fuzz` in tests/bench compares both with a real bash. Letters that only look like Latin
ones are named here too.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Never

from buddy.agent.lazy_regex import pattern
from buddy.safety.shell.result import (
    ARITHMETIC,
    SUM,
    CommandLine,
    Piece,
    Redirect,
    Simple,
    UnclearError,
    Word,
    word_of,
)

MAX_WORDS = 300
MAX_PIECES = 600
MAX_BRACKETS = 40
_BLANK = " \t"
_META = " \t\n;&|()<>"
_GAP = pattern(r"(?:[ \t]|\\\n)+")
_RUN = pattern(r"[A-Za-z0-9_./:,%+@^\u00a0-\U0010ffff-]+")
_QUOTED_RUN = pattern(r"[^\"$`\\]+")
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = pattern(r"([A-Za-z_][A-Za-z0-9_]*)(=|\+=|\[)")
_SPECIAL = "?$#!0123456789@*-_"
_ANSI = {"t": "\t", "n": "\n", "\\": "\\", "'": "'", '"': '"'}
_SIGNS = pattern(r"&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>&|>\||>")
_DOLLAR_IS_PLAIN = pattern(r"(?:[\s/|.,:;%^)\\+~-]|\Z)")
_CONSTRUCTS = {
    "if": "an if", "then": "an if", "elif": "an if", "else": "an if", "fi": "an if",
    "for": "a loop", "while": "a loop", "until": "a loop", "do": "a loop", "done": "a loop",
    "select": "a loop", "in": "a loop", "case": "a case", "esac": "a case",
    "{": "a group", "}": "a group", "[[": "a [[ ]] test", "]]": "a [[ ]] test",
    "function": "a function", "coproc": "a coprocess",
}  # fmt: skip

NOT_FOLLOWED = ": buddy can't tell what it does, so it asks"
"""The end of the reason for a construct that only a read-only sandbox may run unasked."""


class Lexer:
    """Reads one command line. The position only moves forward."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at: int = 0
        self._pending: list[tuple[str, bool, bool]] = []
        self._words = 0
        self._pieces = 0
        self._brackets = 0

    def line(self) -> CommandLine:
        """Return all commands of the text."""
        commands: list[Simple] = []
        connectors: list[str] = []
        connector = ""
        while True:
            self._skip(newlines=True)
            if self._is_at_end():
                if connector in ("&&", "||", "|"):
                    raise UnclearError(f"nothing follows {connector}")
                break
            commands.append(self._simple())
            connectors.append(";" if connector == "\n" else connector)
            connector = self._connector()
        if self._pending:
            raise UnclearError("a here-document does not end")
        return CommandLine(tuple(commands), tuple(connectors))

    def _is_at_end(self) -> bool:
        return self._at >= len(self._text)

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _skip(self, *, newlines: bool) -> None:
        """Go past blanks, comments, and line ends where they mean nothing."""
        while not self._is_at_end():
            gap = _GAP().match(self._text, self._at)
            self._at = gap.end() if gap else self._at
            char = self._peek()
            if char == "#":
                end = self._text.find("\n", self._at)
                self._at = end if end >= 0 else len(self._text)
            elif char == "\n" and newlines:
                self._newline()
            else:
                return

    def _newline(self) -> None:
        """Go past a line end and the here-documents that follow it."""
        self._at += 1
        for mark, strip_tabs, quoted in self._pending:
            self._here_document(mark, strip_tabs=strip_tabs, quoted=quoted)
        self._pending.clear()

    def _here_document(self, mark: str, *, strip_tabs: bool, quoted: bool) -> None:
        while True:
            end = self._text.find("\n", self._at)
            line = self._text[self._at : end if end >= 0 else len(self._text)]
            self._at = end + 1 if end >= 0 else len(self._text)
            if (line.lstrip("\t") if strip_tabs else line) == mark:
                if end >= 0:
                    self._at = end  # the line end after the mark also ends the command
                return
            if not quoted and re.search(r"[$`\\]", line):
                raise UnclearError("a here-document with expansions", construct=True)
            if end < 0:
                raise UnclearError("a here-document does not end")

    def _connector(self) -> str:
        """Read the end of a command: a connector, a line end, or the end of the text ("\\n" too)."""
        self._skip(newlines=False)
        for sign in ("&&", "||"):
            if self._text.startswith(sign, self._at):
                self._at += 2
                return sign
        char = self._peek()
        if char == "|":
            if self._peek(1) == "&":
                raise UnclearError("a pipe with |&", construct=True)
            self._at += 1
            return "|"
        if char == ";":
            if self._peek(1) in (";", "&"):
                raise UnclearError("a case", construct=True)
            self._at += 1
            return ";"
        if char == "\n":
            self._newline()
            return "\n"
        if char == "&":
            raise UnclearError("a job in the background", construct=True)
        if char:
            raise UnclearError(f"unexpected {char}", construct=char in "()")
        return "\n"

    def _simple(self) -> Simple:
        """Return one simple command with its assignments and redirections."""
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self._skip(newlines=False)
            redirect = self._redirect("")
            if redirect is not None:
                redirects.append(redirect)
                continue
            if self._is_at_end() or self._peek() in _META:
                break
            start = self._at
            word = self._word()
            if self._peek() in ("<", ">") and (word.plain or "").endswith("}"):
                raise UnclearError("a redirection into a variable", construct=True)
            if (word.plain or "").isdecimal():
                redirect = (
                    self._redirect(self._text[start : self._at]) if self._peek() in ("<", ">") else None
                )
                if redirect is not None:
                    redirects.append(redirect)
                    continue
            assignment = None if words else self._assignment(word)
            if assignment is not None:
                assignments.append(assignment)
            else:
                self._check_first(word, words, is_start=not (words or assignments or redirects))
                words.append(word)
        if not words and not assignments and not redirects:
            char = self._peek()
            if char in ("(", ")"):
                raise UnclearError("a subshell", construct=True)
            raise UnclearError(f"a command is missing before {char or 'the end'}")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _check_first(self, word: Word, words: list[Word], *, is_start: bool) -> None:
        plain = word.plain
        after_bang = len(words) == 1 and words[0].plain == "!"
        if plain is None or (words and not after_bang):
            return
        if plain in _CONSTRUCTS:
            raise UnclearError(f"{_CONSTRUCTS[plain]}{NOT_FOLLOWED}", construct=True)
        if plain == "!" and not is_start:
            raise UnclearError("a ! in an odd place")

    def _assignment(self, word: Word) -> tuple[str, Word] | None:
        first = word.pieces[0]
        found = _ASSIGNMENT().match(first.text) if first.kind == "bare" else None
        if found is None:
            return None
        if found[2] != "=":
            raise UnclearError("an array or an appending assignment", construct=True)
        rest = first.text[found.end() :]
        pieces = ([Piece(rest, "bare")] if rest else []) + list(word.pieces[1:])
        return found[1], word_of(pieces)

    def _redirect(self, fd: str) -> Redirect | None:
        found = _SIGNS().match(self._text, self._at)
        if found is None:
            return None
        sign = found.group()
        self._at = found.end()
        if self._peek() == "(":
            raise UnclearError("a process substitution", construct=True)
        while self._peek() and self._peek() in _BLANK:
            self._at += 1
        if self._is_at_end() or self._peek() in _META:
            raise UnclearError(f"nothing follows {sign}")
        word = self._word()
        if sign in ("<<", "<<-"):
            quoted = all(piece.kind == "quoted" for piece in word.pieces)
            if not quoted and word.plain is None:
                raise UnclearError("a here-document with an odd end mark")
            self._pending.append((word.text, sign == "<<-", quoted))
        return Redirect(fd, sign, word)

    def _word(self) -> Word:
        pieces: list[Piece] = []
        self._words += 1
        if self._words > MAX_WORDS:
            raise UnclearError(f"more than {MAX_WORDS} words", construct=True)
        while char := self._peek():
            if char in _META:
                break
            self._count_piece()
            if char == "'":
                pieces.append(Piece(self._single(), "quoted"))
            elif char == '"':
                self._double(pieces)
            elif char == "\\":
                pieces.append(Piece(self._escape(), "quoted"))
            elif char == "$":
                self._dollar(pieces, quoted=False)
            elif char == "`":
                raise UnclearError("a command substitution", construct=True)
            else:
                pieces.append(Piece(self._plain(char), "bare"))
        if self._peek() == "(":
            raise UnclearError("a function, an array or a pattern list", construct=True)
        return word_of(pieces)

    def _count_piece(self) -> None:
        """Count a piece of a word: thousands of quotes and variables would take both parsers 16 ms."""
        self._pieces += 1
        if self._pieces > MAX_PIECES:
            raise UnclearError(f"more than {MAX_PIECES} pieces of words", construct=True)

    def _plain(self, char: str) -> str:
        """Go past unquoted characters. Hundreds of brackets take the grammar 60 ms."""
        run = _RUN().match(self._text, self._at)
        self._at = run.end() if run else self._at + 1
        self._brackets += char == "["
        if self._brackets > MAX_BRACKETS:
            raise UnclearError(f"more than {MAX_BRACKETS} opening brackets", construct=True)
        return run.group() if run else char

    def _single(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise UnclearError("a single quote does not end")
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _escape(self) -> str:
        char = self._peek(1)
        if not char or char == "\n":
            raise UnclearError("a line continuation inside a word")
        self._at += 2
        return char

    def _double(self, pieces: list[Piece]) -> None:
        self._at += 1
        pieces.append(Piece("", "quoted"))
        while True:
            char = self._peek()
            if not char:
                raise UnclearError("a double quote does not end")
            if char == '"':
                self._at += 1
                return
            self._count_piece()
            if char == "`":
                raise UnclearError("a command substitution", construct=True)
            if char == "$":
                self._dollar(pieces, quoted=True)
                continue
            if char == "\\" and self._peek(1) == "\n":
                raise UnclearError("a line continuation inside a word")
            if char == "\\" and self._peek(1) in ("$", "`", '"', "\\"):
                self._at += 1
                char = self._peek()
                run = None
            else:
                run = _QUOTED_RUN().match(self._text, self._at)
            pieces.append(Piece(run.group() if run else char, "quoted"))
            self._at += len(run.group()) if run else 1

    def _dollar(self, pieces: list[Piece], *, quoted: bool) -> None:
        rest = self._peek(1)
        kind = "quoted variable" if quoted else "variable"
        found = _NAME().match(self._text, self._at + 1)
        if found is not None:
            self._at = found.end()
            pieces.append(Piece(found.group(), kind))
        elif rest == "{":
            found = _NAME().match(self._text, self._at + 2)
            if found is None or self._text[found.end() : found.end() + 1] != "}":
                raise UnclearError("a parameter expansion", construct=True)
            self._at = found.end() + 1
            pieces.append(Piece(found.group(), kind))
        elif rest == "(" and (sum_ := ARITHMETIC().match(self._text, self._at)):
            self._at = sum_.end()
            pieces.append(Piece(SUM, kind))
        elif rest == "'" and not quoted:
            pieces.append(Piece(self._ansi(), "quoted"))
        elif rest and rest in _SPECIAL:
            self._at += 2
            pieces.append(Piece(rest, kind))
        elif _DOLLAR_IS_PLAIN().match(rest) or (quoted and rest == '"'):
            self._at += 1
            pieces.append(Piece("$", "quoted"))
        else:
            self._refuse_dollar(rest)

    def _refuse_dollar(self, sign: str) -> Never:
        names = {"(": "a command substitution", "[": "arithmetic", '"': "a translated string"}
        raise UnclearError(names.get(sign, "an odd dollar sign"), construct=sign in names)

    def _ansi(self) -> str:
        """Read `$'…'` with the few common escapes."""
        found = re.compile(r"\$'((?:[^'\\]|\\.)*)'").match(self._text, self._at)
        if found is None or re.search(r"\\[^tn\\'\"]", found[1]):
            raise UnclearError("a $'…' string with escapes", construct=found is not None)
        self._at = found.end()
        return re.sub(r"\\(.)", lambda escape: _ANSI[escape[1]], found[1])


def read_line(text: str) -> CommandLine:
    """Return the commands of a line. Raises `UnclearError`."""
    return Lexer(text).line()


_WORD = pattern(r"[^\W\d_]+")
_OPERATORS = pattern(r"[\s;&|()<>\"'`=/]+")
_ALIKE = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL")


def lookalike(command: str) -> str:
    """Return the first letter of a foreign alphabet beside Latin ones in a word, or in the name of a program,
    for people; "" when there is none."""
    if command.isascii():
        return ""
    for word in _WORD().findall(command):
        if not word.isascii() and any(char.isascii() for char in word):
            found = next((char for char in word if _name(char).startswith(_ALIKE)), "")
            if found:
                return f"the word {word[:40]} holds U+{ord(found):04X}, {_name(found).lower()}"
    for part in re.split(r"[;&|(\n]+", command):
        first = next(filter(None, _OPERATORS().split(part)), "")
        found = next((char for char in first if _name(char).startswith(_ALIKE)), "")
        if found:
            return f"the name {first[:40]} holds U+{ord(found):04X}, {_name(found).lower()}"
    return ""


def _name(char: str) -> str:
    return unicodedata.name(char, "")
