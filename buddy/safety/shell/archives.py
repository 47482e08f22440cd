"""Archives, compressed files and binaries: listings of what is inside, and what comes out on standard
output."""

from __future__ import annotations

import re
from collections.abc import Callable

from buddy.safety.shell.names import words
from buddy.safety.shell.options import OptionTable, parse
from buddy.safety.shell.place import JudgedCommand, RefusedError

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
