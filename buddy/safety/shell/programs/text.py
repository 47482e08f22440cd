"""Programs that take text apart: filters over files and pipes, jq, sed and awk.

The parsers of sed and awk programs know only what neither writes, reads nor executes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from buddy.safety.shell.context import JudgedCommand, RefusedError
from buddy.safety.shell.programs.names import word_list, words
from buddy.safety.shell.programs.options import Given, OptionTable, parse, table


def pass_names(judged: JudgedCommand) -> None:
    """head and sort: a filter that leaves whole lines as they are hands names of files on."""
    given = table(judged.argv[0]).check(judged)
    if not given.operands and not given.has("-c", "--count", "--bytes"):
        judged.lists = judged.feed


def uniq(judged: JudgedCommand) -> None:
    """uniq: where options must come first, one behind the operand is the name of the output."""
    given = table("uniq").check(judged)
    if given.operands and judged.argv[-1] != given.operands[0]:
        raise RefusedError("uniq with an option behind its operand may write it")
    if not given.operands and not given.has("-c", "--count"):
        judged.lists = judged.feed


def tr(judged: JudgedCommand) -> None:
    """tr: only the well-known way of separating names by NULs keeps them names."""
    given = table("tr").check(judged)
    if judged.feed is not None and given == Given((), ("\\n", "\\0")):
        judged.lists = msgspec.structs.replace(judged.feed, nul=True)


def shuf(judged: JudgedCommand) -> None:
    """shuf: with -e its operands are lines, not files."""
    options = table("shuf").options
    is_echo = any(word in ("-e", "--echo") for word in judged.argv)
    OptionTable(options, operands="text" if is_echo else "read").check(judged)


def tail(judged: JudgedCommand) -> None:
    """tail: following a file never ends, so that is asked about."""
    if any(word in ("-f", "-F", "--follow", "--retry") for word in judged.argv):
        raise RefusedError("tail -f does not end by itself")
    given = table("tail").check(judged)
    if not given.operands and not given.has("-c", "--bytes"):
        judged.lists = judged.feed


TEXT = {"head": pass_names, "sort": pass_names, "tail": tail, "uniq": uniq, "tr": tr, "shuf": shuf}

_JQ_FLAGS = frozenset("rcnsSejaMCR")
_JQ_LONG_FLAGS = word_list("jq")
_JQ_FORBIDDEN = re.compile(r"(?<![.\w])ENV\b|\$__prog|(?<![.\w$])(?:env|import|include|modulemeta)\b")


def jq(judged: JudgedCommand) -> None:
    """Judge one jq command: a program on the command line, no module, no environment."""
    operands: list[str] = []
    rest = list(judged.argv[1:])
    while rest:
        word = rest.pop(0)
        if word in ("--arg", "--argjson"):
            if len(rest) < 2:
                raise RefusedError(f"jq {word} needs a name and a value")
            del rest[:2]
        elif word == "--indent":
            if not rest or not rest.pop(0).isdecimal():
                raise RefusedError("jq --indent needs a number")
        elif word == "--":
            operands.extend(rest)
            break
        elif word.startswith("--") and word in _JQ_LONG_FLAGS:
            continue
        elif not word.startswith("-"):
            operands.append(word)
        elif not word[1:] or not set(word[1:]) <= _JQ_FLAGS:
            raise RefusedError(f"jq {word} is not known to only read")
    if not operands:
        raise RefusedError("jq without a program")
    found = _JQ_FORBIDDEN.search(operands[0])
    if found:
        raise RefusedError(f"jq uses {found.group()}")
    for file in operands[1:]:
        judged.read(file)


_PLAIN = "dDgGhHnNpPxFz="
_FLAGS = re.compile(r"[gpiIM0-9]*")


def sed(judged: JudgedCommand) -> None:
    """Judge one sed command."""
    given = parse(judged, table("sed").options)
    scripts = [value for name, value in given.options if name in ("-e", "--expression") and value is not None]
    operands = given.operands
    if not scripts:
        if not operands:
            raise RefusedError("sed without a program")
        scripts, operands = [operands[0]], operands[1:]
    for script in scripts:
        judge_sed_program(script)
    for operand in operands:
        judged.read(operand)


def judge_sed_program(program: str) -> None:
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
            self._add_text()
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

    def _add_text(self) -> None:
        """Read text after a, i or c to the end of the line; refuse text that might continue."""
        self._skip(" \t")
        text = self._take(r"(?:\\\n)?[^\n\\]+")
        if not text.strip("\\\n \t") or self._peek() == "\\":
            raise RefusedError("a sed program that adds text in an odd way")

    def _end(self) -> None:
        """Check that a command ends here."""
        self._skip(" \t")
        if self._peek() not in ("", ";", "\n", "}", "#"):
            raise RefusedError(f"a sed program with an odd {self._peek()} after a command")


_FORBIDDEN = words("system getline ENVIRON ARGV ARGC ARGIND PROCINFO SYMTAB FUNCTAB")
_STATEMENTS = words("if while for do else return print printf in delete exit getline case switch")
_GOES_ON = words(", && || ? : ( do else print printf")
"""After these a statement goes on in the next line."""

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\\\n)|(?P<end>[\n;{}])|(?P<comment>\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>\d[\d.]*(?:[eE][+-]?\d+)?|\.\d+)|(?P<name>[A-Za-z_]\w*)
    |(?P<slash>/)|(?P<step>\+\+|--)
    |(?P<sign>>>|>=|<=|==|!=|!~|&&|\|\||\*\*=?|[-+*%^]=?|[=<>~!?:,$\[\]()|&@])""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/((?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\n/\\]|\\.)*\])+)/")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def awk(judged: JudgedCommand) -> None:
    """Judge one awk command."""
    given = parse(judged, "-F:text -v:text", stop_at_operand=True)
    for name, value in given.options:
        if name == "-v" and (value is None or not _ASSIGNMENT.match(value) or _name(value) in _FORBIDDEN):
            raise RefusedError(f"awk -v {value}")
    if not given.operands:
        raise RefusedError("awk without a program")
    judge_awk_program(given.operands[0])
    for operand in given.operands[1:]:
        if not _ASSIGNMENT.match(operand):
            judged.read(operand)
        elif _name(operand) in _FORBIDDEN:
            raise RefusedError(f"awk sets {operand}")


def _name(assignment: str) -> str:
    return assignment.partition("=")[0]


def judge_awk_program(program: str) -> None:
    """Refuse an awk program that is not known to only print."""
    printing = False
    before = ""
    for kind, text in _tokens(program):
        if kind == "end":
            printing = printing and text == "\n" and before in _GOES_ON
        elif kind == "name":
            if text in _FORBIDDEN:
                raise RefusedError(f"awk uses {text}")
            printing = printing or text in ("print", "printf")
        elif text in (">>", "|", "@", "|&") or (printing and text.startswith(">")):
            raise RefusedError(f"awk {text} may write or start something")
        before = before if text == "\n" else text


def _tokens(program: str) -> Iterator[tuple[str, str]]:
    """Yield tokens without blanks and comments; a regular expression is one of kind "regex"."""
    at = 0
    before = ("end", "")
    parens: list[bool] = []
    condition_closed = False
    while at < len(program):
        found = _TOKEN.match(program, at)
        if found is None:
            raise RefusedError(f"an awk program with an odd {program[at]}")
        kind, text = str(found.lastgroup), found.group()
        if kind in ("blank", "comment"):
            at = found.end()
            continue
        if kind == "slash":
            kind, text = _slash(program, at, before, condition_closed=condition_closed)
        at += len(text)
        if text == "(":
            parens.append(before[1] in ("if", "while", "for", "switch"))
        condition_closed = text == ")" and bool(parens) and parens.pop()
        before = (kind, text)
        yield before


def _slash(program: str, at: int, before: tuple[str, str], *, condition_closed: bool) -> tuple[str, str]:
    """Return a division or a regular expression, by what stands before it."""
    kind, text = before
    if kind == "step" or text in ("length", "in", "print", "printf", "$"):
        raise RefusedError("an awk program where / may be two things")
    is_operand = (
        kind in ("number", "string", "regex")
        or text == "]"
        or (text == ")" and not condition_closed)
        or (kind == "name" and text not in _STATEMENTS)
    )
    if is_operand:
        return "sign", "/"
    found = _REGEX.match(program, at)
    if found is None:
        raise RefusedError("an awk program with an odd /")
    return "regex", found.group()


AWK = {"awk": awk, "gawk": awk, "mawk": awk, "nawk": awk}
