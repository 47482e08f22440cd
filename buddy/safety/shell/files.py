"""Programs that show files and folders: their content, their size, their kind."""

from __future__ import annotations

import os
import re

from buddy.safety.shell.options import OptionTable, parse
from buddy.safety.shell.place import JudgedCommand, RefusedError
from buddy.safety.shell.verdict import UNRESOLVED
from buddy.safety.shell.walk import check_links, check_secrets

_SUMS = (
    "-bctwzUp0 -a:num --algorithm:num --binary --check --tag --text --zero --ignore-missing --quiet --status "
    "--strict --warn"
)
LS = OptionTable(
    "-aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I:text -T:num -w:num --all --almost-all --author --escape "
    "--block-size:text --ignore-backups --color? --directory --classify? --file-type --format:text "
    "--full-time "
    "--group-directories-first --no-group --human-readable --si --dereference-command-line --hide:text "
    "--hyperlink? --indicator-style:text --inode --ignore:text --kibibytes --numeric-uid-gid --literal "
    "--hide-control-chars --show-control-chars --quote-name --quoting-style:text --reverse --recursive "
    "--size "
    "--sort:text --time:text --time-style:text --tabsize:num --width:num --context --zero --dereference",
    operands="name",
)
DIFF = OptionTable(
    "-abBcdeEfiHnNpqrstTuwyZ -C:num -U:num -W:num -x:text -I:text -L:text -F:text -NUM --brief --text "
    "--context? "
    "--report-identical-files --unified? --ed --normal --rcs --side-by-side --width:num --left-column "
    "--new-file "
    "--suppress-common-lines --show-c-function --show-function-line:text --label:text --expand-tabs "
    "--initial-tab "
    "--tabsize:num --recursive --no-dereference --unidirectional-new-file --ignore-file-name-case "
    "--exclude:text "
    "--exclude-from:read --ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change "
    "--ignore-all-space --ignore-blank-lines --ignore-matching-lines:text --strip-trailing-cr --minimal "
    "--horizon-lines:num --speed-large-files --color? --palette:text"
)
DU = OptionTable(
    "-0aAbcDhHklLmPsSx -B:text -d:num -t:text -X:read --all --apparent-size --block-size:text --bytes "
    "--total "
    "--dereference-args --max-depth:num --human-readable --inodes --null --no-dereference "
    "--separate-dirs --si "
    "--dereference --count-links --summarize --threshold:text --time? --time-style:text --exclude:text "
    "--exclude-from:read --one-file-system",
    operands="name",
)
FILE = OptionTable(
    "-bihkLnN0rvE -e:text -F:text --brief --mime --mime-type --mime-encoding --dereference --no-dereference "
    "--keep-going --no-pad --no-buffer --print0 --raw --exclude:text --separator:text --extension --apple",
)
TREE = OptionTable(
    "-adfilxpsugDFQNqrtcUhAnCSJXv -L:num -P:text -I:text --noreport --dirsfirst --filesfirst --du --si "
    "--prune "
    "--inodes --device --matchdirs --ignore-case --charset:text --filelimit:num --sort:text --gitignore "
    "--metafirst --timefmt:text",
    operands="name",
)


def ls(judged: JudgedCommand) -> None:
    """ls: a recursive listing that follows links must stay inside."""
    if any(re.fullmatch(r"-[A-Za-z1]*d[A-Za-z1]*|--directory", word) for word in judged.argv[1:]):
        # The parent folder that `.*` may match is not looked into.
        judged.argv = tuple(
            word for place, word in enumerate(judged.argv) if word != ".." or place not in judged.globbed
        )
    given = LS.check(judged)
    if given.has("-R", "--recursive") and given.has("-L", "--dereference"):
        check_links(judged, given.operands)


def diff(judged: JudgedCommand) -> None:
    """diff: it compares more than its operands where one of them is a folder."""
    given = DIFF.check(judged)
    check_compared(judged, given.operands, shows=not given.has("-q", "--brief"))


def check_compared(judged: JudgedCommand, operands: tuple[str, ...], *, shows: bool) -> None:
    """Refuse what diff may not open for its operands. It follows links in two folders, and compares a file
    with the one of the same name in a folder. `shows`: it prints what differs."""
    if any(UNRESOLVED in operand for operand in operands):
        raise RefusedError(f"{judged.argv[0]} with a name that is only known when it runs")
    cwd = judged.place.boundary.cwd
    folders = tuple(one for one in operands if os.path.isdir(os.path.join(cwd, one)))
    if len(folders) == len(operands):
        check_links(judged, folders)
        if shows:
            check_secrets(judged, folders, follow=True)
        return
    for folder in folders:
        for other in operands:
            if other not in folders:
                judged.read(os.path.join(folder, os.path.basename(other)))


def sums(judged: JudgedCommand) -> None:
    """md5sum and its like: with -c they open the files a list names."""
    given = parse(judged, _SUMS)
    if given.has("-c", "--check"):
        raise RefusedError(f"{judged.argv[0]} -c reads the files that a list names")
    for operand in given.operands:
        judged.read(operand)


def du(judged: JudgedCommand) -> None:
    """du."""
    given = DU.check(judged)
    if given.has("-L", "--dereference"):
        check_links(judged, given.operands)


def tree(judged: JudgedCommand) -> None:
    """tree: `-Io x y` is -I x and -o y to it, so values are never read as attached."""
    if any(re.match(r"-[A-Za-z]*[LPI].", word) for word in judged.argv[1:]):
        raise RefusedError("tree options with attached values are read differently by its versions")
    given = TREE.check(judged)
    if given.has("-l"):
        check_links(judged, given.operands)


def xxd(judged: JudgedCommand) -> None:
    """xxd: it compares options by their first letters, and a second operand is the output."""
    operands: list[str] = []
    words = list(judged.argv[1:])
    while words:
        word = words.pop(0)
        if operands or not word.startswith("-") or word == "-":
            operands.append(word)  # behind the first, whatever stands there is the output
        elif word in ("-c", "-g", "-l", "-s"):
            if not words or not re.fullmatch(r"[+-]?\w+", words.pop(0)):
                raise RefusedError(f"xxd {word} needs a number")
        elif word not in ("-a", "-b", "-e", "-i", "-p", "-ps", "-plain", "-u") and not re.fullmatch(
            r"-[cgls]\d+", word
        ):
            raise RefusedError(f"xxd {word} is not known to only read")
    if len(operands) > 1 or judged.globbed:
        raise RefusedError("xxd writes its second operand")
    for operand in operands:
        judged.read(operand)


def strings(judged: JudgedCommand) -> None:
    """strings: an operand that starts with @ names a file with more options."""
    given = parse(judged, "-a -n:num -t:text -e:text -NUM --all --bytes:num --radix:text --encoding:text")
    for operand in given.operands:
        if operand.startswith("@"):
            raise RefusedError("strings reads options from a file that starts with @")
        judged.read(operand)


FILES = {
    "ls": ls,
    "dir": ls,
    "cat": OptionTable(
        "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs "
        "--show-nonprinting"
    ),
    "stat": OptionTable(
        "-Lft -c:text --dereference --file-system --format:text --printf:text --terse", operands="name"
    ),
    "file": FILE,
    "du": du,
    "df": OptionTable(
        "-ahHiklPT -B:text -t:text -x:text --all --block-size:text --human-readable --si --inodes --local "
        "--portability --print-type --type:text --exclude-type:text --output? --total --no-sync",
        operands="text",
    ),
    "basename": OptionTable("-az -s:text --multiple --suffix:text --zero", operands="text"),
    "dirname": OptionTable("-z --zero", operands="text"),
    "realpath": OptionTable(
        "-eEmLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip "
        "--no-symlinks "
        "--zero --relative-to:name --relative-base:name",
        operands="name",
    ),
    "readlink": OptionTable(
        "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet "
        "--silent "
        "--verbose --zero",
        operands="name",
    ),
    "tree": tree,
    "diff": diff,
    "cmp": OptionTable(
        "-bls -i:text -n:num --print-bytes --ignore-initial:text --verbose --bytes:num --quiet --silent",
        at_most=4,
    ),
    "xxd": xxd,
    "od": OptionTable(
        "-abcdfhiloOsvx -A:text -j:num -N:num -S:num -t:text -w? --address-radix:text --skip-bytes:num "
        "--read-bytes:num --format:text --strings? --output-duplicates --width? --endian:text"
    ),
    "hexdump": OptionTable(
        "-bcCdovx -n:num -s:num -e:text --canonical --length:num --skip:num --no-squeezing"
    ),
    "hd": OptionTable("-bcCdovx -n:num -s:num"),
    "strings": strings,
    "md5sum": sums,
    "sha1sum": sums,
    "sha224sum": sums,
    "sha256sum": sums,
    "sha384sum": sums,
    "sha512sum": sums,
    "b2sum": sums,
    "shasum": sums,
    "cksum": OptionTable("-a:text -z --algorithm:text --zero --tag --untagged --debug"),
    "sum": OptionTable("-rs --sysv"),
    "md5": OptionTable("-qrn -s:text"),
}
