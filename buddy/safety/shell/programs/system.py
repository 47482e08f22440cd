"""Programs that print what they are told or a fact about the machine; tests; the shell's harmless
builtins."""

from __future__ import annotations

import re

from buddy.safety.shell.context import JudgedCommand, RefusedError
from buddy.safety.shell.expansion import HARMLESS_VARIABLES
from buddy.safety.shell.programs.names import word_list, words
from buddy.safety.shell.programs.options import parse, table
from buddy.safety.shell.result import UNRESOLVED

_FILE_TESTS = words("-e -f -d -s -r -w -x -L -h -b -c -p -S -u -g -k -O -G -N")
_STRING_TESTS = words("-n -z")
_COMPARISONS = words("= == != < > -eq -ne -lt -le -gt -ge")
_FILE_COMPARISONS = words("-nt -ot -ef")
_PS_FIELDS = word_list("ps fields")
_PS_CLUSTERS = word_list("ps")
_FORMAT = re.compile(
    r"(?:[^%\0]|%%|%\([^()\0]*\)T|%[-+ #0']*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[hlLjzt]*[diouxXeEfFgGaAcsbqQ])*",
    re.DOTALL,
)
_SET = re.compile(r"[-+][eux]+")


def printf(judged: JudgedCommand) -> None:
    """printf: everything but -v and %n, which assign: `printf x%n PATH` would lead to the workspace's
    programs."""
    words_ = list(judged.argv[1:])
    if words_[:1] == ["--"]:
        words_.pop(0)
    elif words_[:1] and words_[0].startswith(("-", UNRESOLVED)) and words_[0] != "-":
        raise RefusedError("printf with an option")
    if not words_:
        raise RefusedError("printf without a format")
    if not _FORMAT.fullmatch(words_[0]):
        raise RefusedError("printf with a format that may assign to a variable")


def echo(_judged: JudgedCommand) -> None:
    """echo: it can only print."""


def test(judged: JudgedCommand) -> None:
    """test and [: known operators on plain words (-v would evaluate a subscript). With words that are not
    known, only what is too short to be read in two ways."""
    tokens = list(judged.argv[1:])
    if judged.argv[0] == "[" and (not tokens or tokens.pop() != "]"):
        raise RefusedError("[ without ]")
    if judged.opaque and len(tokens) > (4 if tokens[0] == "!" else 3):
        raise RefusedError("a long test of words that are only known when it runs")
    while tokens:
        token = tokens.pop(0)
        after = tokens[0] if tokens else ""
        if token in ("!", "(", ")", "-a", "-o"):
            continue
        if after in _COMPARISONS and len(tokens) > 1:
            _comparison(token, tokens)
        elif after in _FILE_COMPARISONS and len(tokens) > 1:
            _look_at(judged, token)
            _look_at(judged, tokens[1])
            del tokens[:2]
        elif token in _FILE_TESTS and tokens:
            _look_at(judged, tokens.pop(0))
        elif token in _STRING_TESTS and tokens:
            tokens.pop(0)
        elif token.startswith(("-", UNRESOLVED)):
            raise RefusedError(f"test {token} is not known to only look")


def _look_at(judged: JudgedCommand, given: str) -> None:
    if UNRESOLVED not in given:  # such a test tells one bit about a file that only the running shell names
        judged.name(given)


def _comparison(left: str, tokens: list[str]) -> None:
    operator, right = tokens.pop(0), tokens.pop(0)
    if operator.startswith("-") and not all(re.fullmatch(r"\s*-?\d+\s*|\0", side) for side in (left, right)):
        raise RefusedError(f"test {operator} on something that is no number")


def date(judged: JudgedCommand) -> None:
    """date: an operand that is no format would set the clock."""
    given = parse(judged, table("date").options)
    for operand in given.operands:
        if not operand.startswith("+"):
            raise RefusedError("date with an operand that is no format may set the clock")


def ps(judged: JudgedCommand) -> None:
    """Judge ps: known shapes only. A word without a dash that contains e shows environments, and so does
    every cluster that ps rejects, because it then reads the line again without the dashes."""
    rest = list(judged.argv[1:])
    clusters: list[str] = []
    bsd = fields = False
    while rest:
        word = rest.pop(0)
        if word in ("-o", "-eo", "-Ao", "-axo"):
            _fields(rest)
            fields = True
        elif word in ("-p", "-u", "-C", "--pid", "--ppid"):
            if not rest or not re.fullmatch(r"[\w.,$+-]+", rest.pop(0)):
                raise RefusedError(f"ps {word} needs a value")
        elif re.fullmatch(r"-?[aux]+[wf]*|-?w+", word):
            bsd = True
        elif word in _PS_CLUSTERS:
            clusters.append(word)
        elif not re.fullmatch(r"--sort=[-+\w,%]+|--no-headers?|--forest", word):
            raise RefusedError(f"ps {word} is not known to leave out environments")
    if clusters and (bsd or len(clusters) > 1 or (fields and clusters != ["-e"] and clusters != ["-A"])):
        raise RefusedError("ps options that may show environments when they do not fit together")


def _fields(rest: list[str]) -> None:
    fields = rest.pop(0) if rest else ""
    for field in re.split(r"[, ]", fields):
        if field.split("=")[0].split(":")[0] not in _PS_FIELDS:
            raise RefusedError(f"ps -o {fields} is not known to leave out environments")


def printenv(judged: JudgedCommand) -> None:
    """printenv: named variables that hold no secrets."""
    if len(judged.argv) < 2 or not all(
        name in HARMLESS_VARIABLES | {"HOME", "PWD"} for name in judged.argv[1:]
    ):
        raise RefusedError("it prints the environment")


def sleep(judged: JudgedCommand) -> None:
    """sleep: a while, not for ever."""
    if len(judged.argv) != 2 or not re.fullmatch(r"\d{1,3}(?:\.\d+)?s?", judged.argv[1]):
        raise RefusedError("sleep for so long")


def shell_set(judged: JudgedCommand) -> None:
    """set: only what makes a shell stop earlier or print more; alone it prints all variables."""
    rest = list(judged.argv[1:])
    if not rest:
        raise RefusedError("set prints all variables")
    while rest:
        word = rest.pop(0)
        takes_name = re.fullmatch(r"[-+][eux]*o", word)
        if takes_name and rest and rest.pop(0) == "pipefail":
            continue
        if not _SET.fullmatch(word):
            raise RefusedError(f"set {word}")


def leave(judged: JudgedCommand) -> None:
    """exit."""
    if len(judged.argv) > 2 or not all(re.fullmatch(r"\d+|\0", word) for word in judged.argv[1:]):
        raise RefusedError("exit with an odd operand")


PRINTS = frozenset({"echo", "printf", "test", "[", "true", "false", ":", "exit"})
"""Commands whose arguments need not be known."""


_IP_OBJECTS = words("a addr address l link r ro route ru rule n neigh neighbor neighbour maddr maddress")
_IP_FLAGS = words(
    "-4 -6 -s -o -d -h -j -p -c -br -brief -stats -statistics -oneline -details -human -json -pretty"
)


def ip(judged: JudgedCommand) -> None:
    """ip: what it lists; `get` of a route is a look into a local table."""
    rest = list(judged.argv[1:])
    while rest and rest[0] in _IP_FLAGS:
        rest.pop(0)
    lists = bool(rest) and rest.pop(0) in _IP_OBJECTS
    if not lists or (rest and rest[0] not in ("show", "list", "ls", "lst")):
        raise RefusedError(f"{' '.join(judged.argv)} is not known to only read")


SYSTEM = {
    "echo": echo,
    "printf": printf,
    "test": test,
    "[": test,
    "true": echo,
    "false": echo,
    ":": echo,
    "exit": leave,
    "set": shell_set,
    "sleep": sleep,
    "date": date,
    "ps": ps,
    "printenv": printenv,
    "ip": ip,
}
