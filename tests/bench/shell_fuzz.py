"""A differential fuzz test: the two parsers and the expansion against a real bash.

    python -m tests.bench.shell_fuzz [SECONDS] [SEED]

Random command lines are made of fragments that matter to quoting. Where both parsers accept one and agree,
bash runs it in an empty folder with an empty PATH, and a `command_not_found_handle` records every argv it was
about to start. All of them must be what the analysis saw: any other argv is a hole.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from buddy.safety.paths import Boundary
from buddy.safety.shell.context import CommandPlace, RefusedError
from buddy.safety.shell.expansion import expand
from buddy.safety.shell.lexer import read_line
from buddy.safety.shell.result import UNRESOLVED, Redirect, UnclearError
from buddy.safety.shell.tree_sitter import Grammar

FRAGMENTS = (
    'a b cc -x --y=1 \'q r\' "d e" \\  \\\' \\" \\\\ \'\' "" $HOME "$HOME" ${PWD} $? "$?" '
    "$'t\\tn' $'\\'' "
    "~ ~/ ~x * *.t ?1 [ab]* [!a]* {a,b} x{1,2}y {} {a} a{b}c HEAD@{1} = a= a=b x=y \\* '*' \"*\" # "
    "a#b #c ! % ^ "
    '+ , . / : @ _ é [ ] [a \\$HOME \'$HOME\' "\\$x" "a\\b" "\\\\" "a\'b" \'a"b\' 1 2 10 > >> < 2>&1 '
    "2>/dev/null >/dev/null </dev/null &>/dev/null <<<w <<'E' <<E E ; ;; && || | |& & ( ) NL NLNL "
    "\\NL $ $( ` $(( "
    '{a..c} {1..3} x{2..1}y $((1+2)) "$((3*(1+2)))" $((1)+(2)) ~+ TAB if then fi for do '
    'done in { } time [[ ]] $x ${x} ${x:-y} $# $1 $@ "$@" '
    "$'\\x41' <( >( 3>&- "
    '2>&- >&2 9<>f LC_ALL=C A+=b a[1]=2 $"x" "a$" \'a\' "#" \\# "!" -- \'\'a ""b ~\'\' \'\'~ {,} '
    "{a,} {a,'b'} {$x,b}"
)
WORDS = tuple(word.replace("NL", "\n").replace("TAB", "\t") for word in FRAGMENTS.split(" "))
SEPARATORS = ("", "", " ", " ", " ", "  ", "\t", "\n", " ; ", " && ", " | ", ";", "|")
FILES = ("a1", "b1", "x.t", "y.t", "-dash", ".hidden", "sub/z.t")
_HANDLER = r"""
command_not_found_handle() { printf '%s\0' "$@" $'\1' >> "$RECORD"; return 0; }
"""


def made(random_: random.Random) -> str:
    """A random command line."""
    pieces: list[str] = []
    for _ in range(random_.randint(1, 9)):
        pieces.append(random_.choice(WORDS))
        pieces.append(random_.choice(SEPARATORS))
    return "zz " + "".join(pieces)


class Bash:
    """Runs command lines in a folder with known files and tells which argv were started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        self.folder.mkdir()
        self._record = folder / "record"
        self._script = folder / "handler.sh"
        self._script.write_text(_HANDLER)
        for name in FILES:
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("")
        self.home = str(folder / "home")

    def started(self, command: str) -> list[tuple[str, ...]]:
        """Every argv bash would have started for names it doesn't know."""
        self._record.write_text("")
        environment = {
            "PATH": "/nonexistent",
            "HOME": self.home,
            "RECORD": str(self._record),
            "LC_ALL": "C.UTF-8",
            "BASH_ENV": str(self._script),
        }
        subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-c", command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
        found: list[tuple[str, ...]] = []
        argv: list[str] = []
        for item in self._record.read_bytes().split(b"\0")[:-1]:
            if item == b"\1":
                found.append(tuple(argv))
                argv = []
            else:
                argv.append(os.fsdecode(item))
        return found


def understood(command: str, grammar: Grammar, place: CommandPlace) -> list[tuple[str, ...]] | None:
    """Return the analysis of a command line, None when it asks."""
    try:
        line = read_line(command)
        if grammar.commands(command) != line.commands:
            return None
        found: list[tuple[str, ...]] = []
        for simple in line.commands:
            words = simple.words[1:] if simple.words and simple.words[0].plain == "!" else simple.words
            if simple.assignments or any(map(_writes, simple.redirects)):
                return None
            found.append(expand(words, place).argv)
        return found
    except (UnclearError, RefusedError):
        return None


def _writes(redirect: Redirect) -> bool:
    if redirect.sign in (">&", "<&"):
        return not (redirect.word.text.isdecimal() or redirect.word.text == "-")
    return redirect.sign in (">", ">>", ">|", "<>", "&>", "&>>") and redirect.word.text != "/dev/null"


def _same(seen: tuple[str, ...], real: tuple[str, ...]) -> bool:
    if len(seen) == len(real) + 1 and seen[0] == "time":  # a reserved word, except behind a pipe
        seen = seen[1:]
    if ".." in seen and ".." not in real:  # older shells let .* match it, so the analysis does
        seen = tuple(word for word in seen if word != "..")
    return len(seen) == len(real) and all(
        re.fullmatch(re.escape(expected).replace(UNRESOLVED, r"\d+"), found)
        for expected, found in zip(seen, real, strict=True)
    )


def disagreement(command: str, seen: list[tuple[str, ...]], started: list[tuple[str, ...]]) -> str:
    """An argv that bash started and the analysis did not see, "" when there is none. Builtins, reserved words
    and commands that a failing one keeps from running are not recorded, so bash may start fewer."""
    rest = [argv for argv in seen if argv]
    for real in sorted(started, key=lambda argv: argv not in rest):  # certain ones first
        position = rest.index(real) if real in rest else None
        if position is None:
            position = next((index for index, argv in enumerate(rest) if _same(argv, real)), None)
        if position is None:
            return f"{command!r}: bash started {real}, the analysis saw {seen}"
        del rest[position]
    return ""


def run(seconds: float, seed: int, at_most: int = 10**9) -> tuple[int, int, list[str]]:
    """Made, compared, and the disagreements."""
    random_ = random.Random(seed)
    grammar = Grammar()
    tried = compared = 0
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        bash = Bash(Path(folder).resolve())
        place = CommandPlace(Boundary(str(bash.folder), str(bash.folder), bash.home))
        end = time.monotonic() + seconds
        while time.monotonic() < end and compared < at_most:
            tried += 1
            command = made(random_)
            seen = understood(command, grammar, place)
            if seen is None:
                continue
            compared += 1
            problem = disagreement(command, seen, bash.started(command))
            if problem:
                problems.append(problem)
    return tried, compared, problems


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *["60", "1"][len(sys.argv) - 1 :]]
    count, judged, found = run(float(arguments[0]), int(arguments[1]))
    print(f"{count} command lines made, {judged} accepted by both parsers and compared with bash")
    for problem in found[:40]:
        print(problem)
    print(f"{len(found)} disagreements")
    sys.exit(1 if found else 0)
