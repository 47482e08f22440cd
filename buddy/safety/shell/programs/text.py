"""Programs that take text apart: filters over files and pipes, and jq."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from buddy.safety.shell.context import JudgedCommand, RefusedError
from buddy.safety.shell.programs.names import words
from buddy.safety.shell.programs.options import Given, OptionTable

_HEAD = "-qvz -n:num -c:num -NUM --lines:num --bytes:num --quiet --silent --verbose --zero-terminated"
SORT = OptionTable(
    "-bdfgiMhnRrVcCmsuz -k:text -t:text -S:text --ignore-leading-blanks --dictionary-order --ignore-case "
    "--general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort "
    "--random-sort "
    "--reverse --version-sort --sort:text --check? --merge --key:text --stable --field-separator:text "
    "--unique "
    "--zero-terminated --parallel:num --debug"
)
UNIQ = OptionTable(
    "-cdDiuz -f:num -s:num -w:num --count --repeated --all-repeated? --group? --ignore-case --unique "
    "--zero-terminated --skip-fields:num --skip-chars:num --check-chars:num",
    at_most=1,
)


def _passes_names(table: OptionTable) -> Callable[[JudgedCommand], None]:
    """A filter that leaves whole lines as they are hands names of files on."""

    def judge(judged: JudgedCommand) -> None:
        given = table.check(judged)
        if not given.operands and not given.has("-c", "--count", "--bytes"):
            judged.lists = judged.feed

    return judge


def uniq(judged: JudgedCommand) -> None:
    """uniq: where options must come first, one behind the operand is the name of the output."""
    given = UNIQ.check(judged)
    if given.operands and judged.argv[-1] != given.operands[0]:
        raise RefusedError("uniq with an option behind its operand may write it")
    if not given.operands and not given.has("-c", "--count"):
        judged.lists = judged.feed


def tr(judged: JudgedCommand) -> None:
    """tr: only the well-known way of separating names by NULs keeps them names."""
    given = OptionTable(
        "-cCdst --complement --delete --squeeze-repeats --truncate-set1",
        operands="text",
        at_least=1,
        at_most=2,
    ).check(judged)
    if judged.feed is not None and given == Given((), ("\\n", "\\0")):
        judged.lists = msgspec.structs.replace(judged.feed, nul=True)


def column(judged: JudgedCommand) -> None:
    """column."""
    OptionTable(
        "-txJ -s:text -c:num -o:text -N:text -H:text -O:text -R:text -T:text -W:text -E:text --table --json "
        "--separator:text --output-separator:text --table-columns:text --output-width:num --fillrows "
        "--table-right:text --table-hide:text --table-order:text --table-truncate:text --table-wrap:text "
        "--table-name:text"
    ).check(judged)


def shuf(judged: JudgedCommand) -> None:
    """shuf: with -e its operands are lines, not files."""
    options = "-ez -i:text -n:num --echo --input-range:text --head-count:num --zero-terminated"
    is_echo = any(word in ("-e", "--echo") for word in judged.argv)
    OptionTable(options, operands="text" if is_echo else "read").check(judged)


def tail(judged: JudgedCommand) -> None:
    """tail: following a file never ends, so that is asked about."""
    if any(word in ("-f", "-F", "--follow", "--retry") for word in judged.argv):
        raise RefusedError("tail -f does not end by itself")
    given = OptionTable(_HEAD).check(judged)
    if not given.operands and not given.has("-c", "--bytes"):
        judged.lists = judged.feed


TEXT = {
    "head": _passes_names(OptionTable(_HEAD)),
    "tail": tail,
    "sort": _passes_names(SORT),
    "uniq": uniq,
    "tr": tr,
    "column": column,
    "shuf": shuf,
    "wc": OptionTable("-clLmw --bytes --chars --lines --words --max-line-length --total:text"),
    "nl": OptionTable("-p -b:text -d:text -f:text -h:text -i:num -l:num -n:text -s:text -v:num -w:num"),
    "tac": OptionTable("-br -s:text --before --regex --separator:text"),
    "rev": OptionTable(""),
    "comm": OptionTable(
        "-123iz --check-order --nocheck-order --output-delimiter:text --total --zero-terminated", at_most=2
    ),
    "cut": OptionTable(
        "-nsz -b:text -c:text -d:text -f:text --bytes:text --characters:text --delimiter:text --fields:text "
        "--complement --only-delimited --output-delimiter:text --zero-terminated"
    ),
    "fold": OptionTable("-bs -w:num -NUM --bytes --spaces --width:num"),
    "fmt": OptionTable("-cstu -w:num -p:text -NUM --width:num"),
    "join": OptionTable(
        "-iz -1:text -2:text -a:text -e:text -j:text -o:text -t:text -v:text --check-order "
        "--nocheck-order --header "
        "--zero-terminated --ignore-case",
        at_most=2,
    ),
    "paste": OptionTable("-sz -d:text --serial --delimiters:text --zero-terminated"),
    "expand": OptionTable("-i -t:text -NUM --initial --tabs:text"),
    "unexpand": OptionTable("-a -t:text --all --first-only --tabs:text"),
    "base64": OptionTable("-di -w:num --decode --ignore-garbage --wrap:num", at_most=1),
    "base32": OptionTable("-di -w:num --decode --ignore-garbage --wrap:num", at_most=1),
    "seq": OptionTable(
        "-w -s:text -f:text -NUM --equal-width --separator:text --format:text",
        operands="text",
        at_least=1,
        at_most=3,
    ),
    "tsort": OptionTable(""),
    "bc": OptionTable("-lqswi --mathlib --quiet --standard --warn"),
    "pr": OptionTable(
        "-NUM -acdFfJmrtTv -l:num -w:num -W:num -h:text -o:num -N:num -i? -n? -s? -S? --columns:num "
        "--header:text "
        "--length:num --width:num --omit-header --double-space --merge --across"
    ),
    "numfmt": OptionTable(
        "-z -d:text --from:text --to:text --from-unit:text --to-unit:text --field:text --format:text "
        "--grouping "
        "--header? --padding:num --round:text --suffix:text --invalid:text --delimiter:text",
        operands="text",
    ),
}


_FLAGS = frozenset("rcnsSejaMCR")
_LONG_FLAGS = words(
    "--raw-output --compact-output --null-input --slurp --sort-keys --exit-status --join-output "
    "--ascii-output --monochrome-output --color-output --raw-input --tab --stream --seq --unbuffered "
    "--raw-output0"
)
_FORBIDDEN = re.compile(r"(?<![.\w])ENV\b|\$__prog|(?<![.\w$])(?:env|import|include|modulemeta)\b")


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
        elif word.startswith("--") and word in _LONG_FLAGS:
            continue
        elif not word.startswith("-"):
            operands.append(word)
        elif not word[1:] or not set(word[1:]) <= _FLAGS:
            raise RefusedError(f"jq {word} is not known to only read")
    if not operands:
        raise RefusedError("jq without a program")
    found = _FORBIDDEN.search(operands[0])
    if found:
        raise RefusedError(f"jq uses {found.group()}")
    for file in operands[1:]:
        judged.read(file)
