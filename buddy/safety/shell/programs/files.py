"""Programs that show files, folders, archives and binaries."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from buddy.safety.shell.context import JudgedCommand, RefusedError
from buddy.safety.shell.programs.names import words
from buddy.safety.shell.programs.options import OptionTable, parse
from buddy.safety.shell.result import UNRESOLVED
from buddy.safety.shell.secret_search import check_links, check_secrets

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


_TAR_LONG = words(
    "--list --verbose --gzip --bzip2 --xz --zstd --auto-compress --numeric-owner --full-time --wildcards "
    "--no-wildcards --utc --quoting-style=literal"
)
_TAR_LETTERS = frozenset("tvzjJaf")


def tar(judged: JudgedCommand) -> None:
    """tar: only -t. An archive's name with a colon is one on another machine, reached by rsh; long options
    may be abbreviated, so only whole known ones pass."""
    rest = list(judged.argv[1:])
    letters = ""
    archives: list[str] = []
    is_first = True
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, _, value = word.partition("=")  # of two words nobody knows which belong together
            if name == "--file" and value:
                archives.append(value)
            elif (not value or name not in ("--exclude", "--strip-components")) and word not in _TAR_LONG:
                raise RefusedError(f"tar {word} is not known to only list")
        elif (is_first or word.startswith("-")) and word != "-":
            letters += _tar_cluster(judged, word, rest, archives, is_old=not word.startswith("-"))
        is_first = False
    if ("t" not in letters and "--list" not in judged.argv) or len(archives) != 1 or judged.globbed:
        raise RefusedError("tar that does more than list one archive")
    if ":" in archives[0]:
        raise RefusedError(f"tar would look for {archives[0]} on another machine")
    judged.read(archives[0])


def _tar_cluster(
    judged: JudgedCommand, word: str, rest: list[str], archives: list[str], *, is_old: bool
) -> str:
    """The letters of one word; the archive's name is the rest of it behind -f, or the next word."""
    letters = word if is_old else word[1:]
    before, f, after = letters.partition("f")
    if not set(before) <= _TAR_LETTERS or (is_old and not set(after) <= _TAR_LETTERS - {"f"}):
        raise RefusedError(f"tar {word} is not known to only list")
    if f and after and not is_old:
        archives.append(after)
        return before
    if f:
        if not rest:
            raise RefusedError("tar -f needs a name")
        archives.append(rest.pop(0))
    return before + after


def unzip(judged: JudgedCommand) -> None:
    """unzip: -l, -v, -t and -Z only look; zipinfo does nothing else."""
    name = judged.argv[0]
    rest = judged.argv[1:]
    clusters = [word for word in rest if word.startswith("-")]
    names = [word for word in rest if not word.startswith("-")]
    shape = r"-[12smlhvtTC]+" if name == "zipinfo" else r"-(?:[lvtqhC]*[lvt][lvtqhC]*|Z[12smlhvtTC]*)"
    if any(not re.fullmatch(shape, word) for word in clusters) or (name == "unzip" and not clusters):
        raise RefusedError(f"{name} that does more than list")
    if not names or (clusters and rest[: len(clusters)] != tuple(clusters)):
        raise RefusedError(f"{name} with options behind the archive")
    judged.read(names[0])


def unpacks_with(options: str, *, by_itself: bool = False) -> Callable[[JudgedCommand], None]:
    """Return a judge that accepts unpacking to standard output, listing and testing; `by_itself`: the program
    does nothing else."""

    def judge(judged: JudgedCommand) -> None:
        given = OptionTable(options).check(judged)
        prints = by_itself or given.has("-c", "--stdout", "--to-stdout")
        looks = given.has("-l", "--list", "-t", "--test")
        unpacks = given.has("-d", "--decompress")
        if not prints and (unpacks or not looks):  # of -t and -d the last one counts
            raise RefusedError(f"{judged.argv[0]} that replaces files")
        if judged.argv[0] in ("gzip", "bzip2", "xz") and not looks and not unpacks:
            raise RefusedError(f"{judged.argv[0]} that packs")

    return judge


_PACK = "-cdklqtv --stdout --to-stdout --decompress --list --quiet --test --verbose --keep"


def binutil(options: str) -> Callable[[JudgedCommand], None]:
    """A program of binutils: an operand that starts with @ names a file with more options."""

    def judge(judged: JudgedCommand) -> None:
        given = parse(judged, options)
        if any(word.startswith("@") for word in judged.argv[1:]):
            raise RefusedError(f"{judged.argv[0]} reads options from a file that starts with @")
        for operand in given.operands or ("a.out",):
            judged.read(operand)

    return judge


def cxxfilt(judged: JudgedCommand) -> None:
    """c++filt: symbols, no files."""
    given = parse(
        judged, "-_ntprivs -s:text --no-verbose --strip-underscore --no-strip-underscore --no-params --types"
    )
    if any(operand.startswith("@") for operand in given.operands):
        raise RefusedError("c++filt reads options from a file that starts with @")


def addr2line(judged: JudgedCommand) -> None:
    """addr2line: addresses in one file."""
    given = parse(
        judged,
        "-afipCs -e:read -j:text --exe:read --functions --inlines --pretty-print --demangle? --basenames",
    )
    if any(not re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", operand) for operand in given.operands):
        raise RefusedError("addr2line with something that is no address")


ARCHIVES: dict[str, Callable[[JudgedCommand], None]] = {
    "tar": tar,
    "unzip": unzip,
    "zipinfo": unzip,
    "gzip": unpacks_with(_PACK),
    "gunzip": unpacks_with(_PACK),
    "zcat": unpacks_with("-flqv --list --quiet --verbose", by_itself=True),
    "bzip2": unpacks_with("-cdkqtv --stdout --decompress --quiet --test --verbose --keep"),
    "bunzip2": unpacks_with("-cdkqtv --stdout --decompress --quiet --test --verbose --keep"),
    "bzcat": unpacks_with("-s", by_itself=True),
    "xz": unpacks_with(_PACK),
    "unxz": unpacks_with(_PACK),
    "xzcat": unpacks_with("-q", by_itself=True),
    "zstdcat": unpacks_with("-q", by_itself=True),
    "nm": binutil(
        "-aAoBCDgnprPSsuUvV -f:text -t:text --debug-syms --print-file-name --demangle? --dynamic "
        "--extern-only "
        "--numeric-sort --no-sort --print-size --size-sort --undefined-only --defined-only --reverse-sort "
        "--print-armap --format:text --radix:text"
    ),
    "objdump": binutil(
        "-afpghxdDtTrRsCwz -j:text -M:text -b:text -m:text --archive-headers --file-headers "
        "--private-headers "
        "--section-headers --headers --all-headers --disassemble? --disassemble-all --syms --dynamic-syms "
        "--reloc "
        "--dynamic-reloc --full-contents --demangle? --wide --section:text --start-address:text "
        "--stop-address:text "
        "--no-show-raw-insn --no-addresses --disassembler-options:text"
    ),
    "readelf": binutil(
        "-aehlSstgdnrnuVADIW -x:text -p:text --all --file-header --program-headers --segments "
        "--section-headers "
        "--sections --headers --syms --symbols --dyn-syms --dynamic --notes --relocs --version-info "
        "--arch-specific "
        "--wide --section-details --section-groups --hex-dump:text --string-dump:text --demangle? --histogram"
    ),
    "size": binutil("-ABGdoxt --format:text --radix:num --totals --common"),
    "c++filt": cxxfilt,
    "addr2line": addr2line,
}
