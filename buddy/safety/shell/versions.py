"""`<tool> --version`, for tools that print it without looking into the project first.

Left out on purpose: pytest, flake8 and pylint load plug-ins the project names before they print their
version.
"""

from __future__ import annotations

import re

from buddy.safety.shell.names import words
from buddy.safety.shell.place import JudgedCommand, found_above

_TOOLS = words(
    "python python3 python2 pip pip3 node git java javac ruby gem perl php lua gcc g++ cc c++ "
    "clang clang++ gdb "
    "make cmake ninja meson docker podman kubectl helm curl wget ssh openssl sqlite3 psql mysql "
    "redis-cli nginx tmux vim nvim "
    "bash zsh fish deno bun uv uvx ruff black mypy isort pyright tsc rg fd fdfind jq yq tree sed awk "
    "gawk grep find sort ls "
    "cat head tail wc tar gzip unzip zip xz bc file less man env date stat du df diff patch rsync ffmpeg "
    "convert aws "
    "gh brew apt dpkg rpm systemctl swift kotlin ghc julia R Rscript dart "
    "nim crystal ocaml "
    "tesseract pandoc shellcheck hadolint pre-commit virtualenv pipx lsof strace ltrace "
    "htop xxd od "
    "cut tr tee xargs basename dirname realpath readlink uname whoami id hostname nproc fold column "
    "which md5sum sha256sum base64 "
    "emacs nano ld nm objdump readelf strip ar as locale seq npx prettier eslint gcloud "
    "hyperfine delta bat eza exa tokei scc cloc"
)
_TELL_HELP = _TOOLS - words(
    "git less vim nvim emacs nano code gh brew man aws gcloud systemctl kubectl docker pre-commit eslint npx"
)
"""Those that print their help themselves, without a pager, plug-ins or the project."""

_BY_FILES: dict[str, tuple[str, ...]] = {
    "cargo": ("rust-toolchain", "rust-toolchain.toml"),
    "rustc": ("rust-toolchain", "rust-toolchain.toml"),
    "rustfmt": ("rust-toolchain", "rust-toolchain.toml"),
    "rustup": ("rust-toolchain", "rust-toolchain.toml"),
    "go": ("go.mod", "go.work"),
    "npm": (".npmrc",),
    "yarn": ("package.json", ".yarnrc", ".yarnrc.yml"),
    "pnpm": ("package.json",),
    "mvn": (".mvn",),
    "dotnet": ("global.json",),
}
"""Tools that first start a version of themselves that one of these files names."""

_TELLING = {"package.json": re.compile(rb"packageManager|devEngines|volta|\\u")}
"""Files that name a version only with these keys; an escape may hide one."""

MAX_BYTES = 200_000

_SUBCOMMAND = words("go openssl uv git")
_SHORT: dict[str, str] = {
    "-V": "python python3 python2 ssh tmux perl tree bash cargo rustc",
    "-v": "node npm ruby perl php lua nginx bun yarn pnpm gem java mvn cmake clang gcc psql",
    "-version": "java javac ffmpeg kotlin scala",
    "-VV": "python python3",
}


def is_version_question(judged: JudgedCommand) -> bool:
    """Tell whether the command only asks a known tool for its version."""
    if len(judged.argv) != 2:
        return False
    name, word = judged.argv
    if name not in _TOOLS and name not in _BY_FILES:
        return False
    if word == "--help":
        return name in _TELL_HELP
    asks = (
        word == "--version"
        or (word == "version" and name in _SUBCOMMAND)
        or name in _SHORT.get(word, "").split()
    )
    return asks and not any(_takes_another(judged, file) for file in _BY_FILES.get(name, ()))


def _takes_another(judged: JudgedCommand, name: str) -> bool:
    """Tell whether a file in a folder above decides which version of the tool is started."""
    telling = _TELLING.get(name)
    return any(telling is None or telling.search(_beginning(path)) for path in found_above(judged, name))


def _beginning(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError:
        return b"packageManager"
    return text if len(text) <= MAX_BYTES else b"packageManager"
