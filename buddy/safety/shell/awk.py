"""awk: its options, and a tokeniser of its programs that finds output to files, commands and the environment.

awk's own rule for telling a division from a regular expression depends on its grammar; where the tokens alone
do not decide, the program is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from buddy.safety.shell.names import words
from buddy.safety.shell.options import parse
from buddy.safety.shell.place import JudgedCommand, RefusedError

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
    judge_program(given.operands[0])
    for operand in given.operands[1:]:
        if not _ASSIGNMENT.match(operand):
            judged.read(operand)
        elif _name(operand) in _FORBIDDEN:
            raise RefusedError(f"awk sets {operand}")


def _name(assignment: str) -> str:
    return assignment.partition("=")[0]


def judge_program(program: str) -> None:
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
    """Tokens without blanks and comments; a regular expression is one of kind "regex"."""
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
    """A division or a regular expression, by what stands before it."""
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
