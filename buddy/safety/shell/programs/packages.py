"""Judges of package managers and toolchains: only questions they answer from local data.

A tool that would run code of the project, write a file of its own or ask the network to answer is left out:
cargo, go list, npm view, make -n, python -m pip.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from buddy.safety.shell.context import JudgedCommand, RefusedError, files_above
from buddy.safety.shell.programs.names import read_entries, word_list, words
from buddy.safety.shell.programs.options import parse, table

_NAME = re.compile(r"[A-Za-z0-9@][\w.@/+:-]*")
_OPENSSL_FLAGS = word_list("openssl")


def _refusal(judged: JudgedCommand) -> RefusedError:
    return RefusedError(f"{' '.join(judged.argv[:3])} is not known to only read")


def _subcommand(judged: JudgedCommand, tool: str) -> None:
    """Make the judge of a tool with subcommands: those that only read, with their options. Operands are
    names, not files."""
    for length in (2, 1):
        name = " ".join((tool, *judged.argv[1 : 1 + length]))
        if name in read_entries("judges.options") and len(judged.argv) > length:
            given = parse(judged, table(name).options, start=1 + length)
            if not all(_NAME.fullmatch(operand) for operand in given.operands):
                raise _refusal(judged)
            return
    raise _refusal(judged)


def pip(judged: JudgedCommand) -> None:
    """pip: what is installed."""
    _subcommand(judged, "pip")


def npm(judged: JudgedCommand) -> None:
    """npm: what is installed. A .npmrc of the project may name files to run and folders to write logs to."""
    if any(files_above(judged, ".npmrc")):
        raise RefusedError("npm reads the project's .npmrc, which may start programs")
    _subcommand(judged, "npm")


def go(judged: JudgedCommand) -> None:
    """go env: settings of the toolchain; -w and -u write them."""
    if any(files_above(judged, "go.mod")) or any(files_above(judged, "go.work")):
        raise RefusedError("go may first fetch the toolchain that go.mod or go.work names")
    names = [word for word in judged.argv[2:] if word != "-json"]
    if judged.argv[1:2] != ("env",) or not all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) for name in names):
        raise _refusal(judged)


def dpkg(judged: JudgedCommand) -> None:
    """dpkg and dpkg-query: questions about packages."""
    rest = judged.argv[1:]
    asks = words("-l -L -s -S -p --list --listfiles --status --search --print-avail --print-architecture")
    if judged.argv[0] == "dpkg-query" and rest[:1] in (("-W",), ("--show",)):
        if not all(re.fullmatch(r"-f=.*|--showformat=.*|[\w*][\w.:+*-]*", word) for word in rest[1:]):
            raise _refusal(judged)
        return
    if not rest or rest[0] not in asks or any(word.startswith("-") for word in rest[1:]):
        raise _refusal(judged)


def rpm(judged: JudgedCommand) -> None:
    """rpm: -q with what it shows; a macro or a pipe could start a program."""
    rest = judged.argv[1:]
    if (
        not rest
        or not re.fullmatch(r"-q[ailcdf]*", rest[0])
        or not all(_NAME.fullmatch(word) for word in rest[1:])
    ):
        raise _refusal(judged)
    if "f" in rest[0]:
        for word in rest[1:]:
            judged.name(word)


def openssl(judged: JudgedCommand) -> None:
    """openssl: certificates and digests; its long options have one dash."""
    rest = list(judged.argv[2:])
    if judged.argv[1:2] not in (("x509",), ("req",), ("crl",), ("dgst",), ("version",)):
        raise _refusal(judged)
    is_digest = judged.argv[1] == "dgst"
    while rest:
        word = rest.pop(0)
        if word == "-in" and rest and not is_digest:
            judged.read(rest.pop(0))
        elif word in ("-inform", "-nameopt", "-certopt", "-checkend") and rest and not is_digest:
            rest.pop(0)
        elif word.startswith("-"):
            if word not in _OPENSSL_FLAGS and not (
                judged.argv[1] == "version" and word in ("-a", "-v", "-d")
            ):
                raise _refusal(judged)
        elif is_digest:
            judged.read(word)
        else:
            raise _refusal(judged)
    if judged.argv[1] in ("x509", "req", "crl") and "-in" not in judged.argv:
        raise RefusedError(f"openssl {judged.argv[1]} without -in waits for input")


def bat(judged: JudgedCommand) -> None:
    """bat: files, with colours; a pager is a program of its own."""
    shown = tuple(word for word in judged.argv if word not in ("--paging=never", "-P", "--no-pager"))
    plain = judged.again(shown)
    plain.opaque, plain.globbed = judged.opaque, judged.globbed
    table("bat").check(plain)


def version_facts(shapes: str) -> Callable[[JudgedCommand], None]:
    """Make the judge of a tool of which some whole lines are known, separated by bars."""
    known = {tuple(shape.split()) for shape in shapes.split("|")}

    def judge(judged: JudgedCommand) -> None:
        if judged.argv[1:] not in known:
            raise _refusal(judged)

    return judge


def rustc(judged: JudgedCommand) -> None:
    """rustc: facts about the compiler; rustup takes another one where the project names it."""
    if any(any(files_above(judged, name)) for name in ("rust-toolchain", "rust-toolchain.toml")):
        raise RefusedError("rustup may first install what rust-toolchain names")
    version_facts(
        "-vV|--version --verbose|-Vv|-V -v|--print sysroot|--print target-list|--print cfg|--print host-tuple"
    )(judged)


_PKG_CONFIG = re.compile(
    r"--(?:libs|cflags|modversion|exists|list-all|version|static|print-errors|short-errors)"
    r"|--(?:variable|atleast-version)=[\w.]+|[A-Za-z0-9][\w.+-]*"
)


def pkg_config(judged: JudgedCommand) -> None:
    """pkg-config: flags of installed libraries."""
    for word in judged.argv[1:]:
        if not _PKG_CONFIG.fullmatch(word):
            raise _refusal(judged)


PACKAGES: dict[str, Callable[[JudgedCommand], None]] = {
    "pip": pip,
    "pip3": pip,
    "npm": npm,
    "go": go,
    "rustc": rustc,
    "dpkg": dpkg,
    "dpkg-query": dpkg,
    "rpm": rpm,
    "openssl": openssl,
    "pkg-config": pkg_config,
    "pkgconf": pkg_config,
    "gcc": version_facts("-v|-dumpversion|-dumpmachine|-print-search-dirs"),
    "g++": version_facts("-v|-dumpversion|-dumpmachine"),
    "cc": version_facts("-v|-dumpversion|-dumpmachine"),
    "clang": version_facts("-v|-dumpversion|-dumpmachine|-print-resource-dir"),
    "bat": bat,
    "batcat": bat,
}
