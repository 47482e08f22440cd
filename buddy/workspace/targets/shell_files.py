"""A client for files that speaks to a `sh` with the usual small programs (busybox, coreutils): for targets
without sftp. Blocks; used in threads.

A request is a command for that shell, read whole before any of it runs; its answer ends with a mark nobody
else knows. The content of files goes over as base64 in here-documents.
"""

from __future__ import annotations

import base64
import errno
import posixpath
import re
import secrets
from collections.abc import Callable
from io import BufferedReader
from typing import IO

from buddy.agent.lazy_regex import pattern
from buddy.workspace.elsewhere import RemoteStatus
from buddy.workspace.targets.pipes import ChannelPipes
from buddy.workspace.targets.supervisor import quote
from buddy.workspace.targets.transport import Cancellation, TargetError

FILES_NEED = (
    "base64",
    "chmod",
    "dd",
    "df",
    "find",
    "head",
    "ln",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "stat",
    "wc",
)
CHUNK_BYTES = 750_000
"""The content of a file that is sent in one request."""
ANSWER_LIMIT_S = 30.0
MAX_WORDS_BYTES = 65_536
MAX_ENTRIES = 100_000
MAX_LISTING_BYTES = 40_000_000

_FUNCTIONS = r"""
export LC_ALL=C
pending=
trap '[ -z "$pending" ] || rm -f -- "$pending"' EXIT
trap 'exit 1' HUP INT TERM
real() { stat -L -c . -- "$1" >/dev/null && readlink -n -f -- "$1"; }
look() { stat -c '%f %s %Y %u %g %h' -- "$1"; }
link() { readlink -n -- "$1"; }
fetch() { head -c "$2" -- "$1"; }
entries() (
  stat -L -c . -- "$1" >/dev/null || exit 1
  [ -d "$1" ] || { echo 'Not a directory'; exit 1; }
  { cd -- "$1" && [ -r . ]; } 2>/dev/null || { echo 'Permission denied'; exit 1; }
  find . -mindepth 1 -maxdepth 1 -exec stat -c '//%f %s %Y %u %g %h %n' {} + 2>/dev/null || :
)
begin() {
  ( umask 077; set -C; : >"$1" ) && { pending=$1; return; }
  if [ -e "$1" ] || [ -L "$1" ]; then echo 'File exists'; fi
  return 1
}
finish() {
  [ "$(wc -c <"$1")" -eq "$2" ] || { echo 'not all of it was written'; return 1; }
  [ -z "$4" ] || chown "$4" "$1" 2>/dev/null || :
  chmod "$3" "$1" || return 1
  dd if=/dev/null of="$1" conv=notrunc,fsync 2>/dev/null || sync
}
put() { [ ! -d "$2" ] || { echo 'Is a directory'; return 1; }; mv -f -- "$1" "$2" && pending=; }
name() {
  if [ -e "$2" ] || [ -L "$2" ]; then echo 'File exists'; return 1; fi
  if ln -- "$1" "$2"; then rm -f -- "$1"; else mv -n -- "$1" "$2" && [ ! -e "$1" ]; fi && pending=
}
"""
"""The last file that was begun and not renamed goes with the shell: `pending`. `name` makes a hard link since
`mv` may replace what appears meanwhile; where the disk has none, `mv -n` has to do."""

_ERRNO = {
    "No such file or directory": errno.ENOENT,
    "Directory nonexistent": errno.ENOENT,
    "nonexistent directory": errno.ENOENT,
    "Not a directory": errno.ENOENT,
    "Too many levels of symbolic links": errno.ENOENT,
    "Symbolic link loop": errno.ENOENT,
    "Permission denied": errno.EACCES,
    "Operation not permitted": errno.EACCES,
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.ENOSPC,
    "Quota exceeded": errno.ENOSPC,
    "File exists": errno.EEXIST,
}
"""The words of glibc, of musl, and of the shells dash and ash for the errors that are told apart."""
_FREE = pattern(r"\s(\d{1,18})\s+\d+%\s")


class ShellFileClient:
    """One shell. Every method raises `OSError` for what is refused over there and `lost(reason)` when the
    shell ends or nothing comes for `limit_s` seconds; after that the client is of no use any more."""

    def __init__(
        self,
        to: IO[bytes],
        back: BufferedReader,
        lost: Callable[[str], TargetError],
        *,
        limit_s: float = ANSWER_LIMIT_S,
    ) -> None:
        silent = "its shell did not answer for {}"
        self._pipes = ChannelPipes(to, back, lost, silent=silent, limit_s=limit_s)
        self._mark = secrets.token_hex(16)
        self._pipes.send(_FUNCTIONS.encode())
        self._ask(":")

    @property
    def is_usable(self) -> bool:
        """Tell whether the shell still answers."""
        return self._pipes.is_usable

    def begin(self, cancellation: Cancellation | None) -> None:
        """Begin a request, of a call that may be cancelled."""
        self._pipes.begin(cancellation)

    def real_path(self, path: str) -> str:
        """Return a path with its links resolved."""
        real = _decode(self._ask(f"real {_word(path)}"))
        if not real.startswith("/") or "\0" in real or real != posixpath.normpath(real):
            raise self._malformed()
        return real

    def status(self, path: str) -> RemoteStatus:
        """Return the attributes of a file; of a link its own."""
        return self._status(self._ask(f"look {_word(path)}").strip())

    def read_link(self, path: str) -> str:
        """Return the target of a link."""
        return _decode(self._ask(f"link {_word(path)}"))

    def read(self, path: str, max_bytes: int, expected: int) -> bytes:
        """Return a file's bytes, at most so many."""
        return self._ask(f"fetch {_word(path)} {max_bytes}", max_bytes=max_bytes + MAX_WORDS_BYTES)

    def write_new(self, path: str, data: bytes, mode: int, owner: tuple[int, int] | None) -> None:
        """Write a file that must not exist yet, and have it flushed to the disk. It goes with this client's
        shell unless it is renamed. An owner that this user may not set is left out."""
        word = _word(path)
        self._ask(f"begin {word}")
        for at in range(0, len(data), CHUNK_BYTES):
            text = base64.encodebytes(data[at : at + CHUNK_BYTES]).decode()
            self._ask(f"base64 -d >>{word}", stdin=f"<<'{self._mark}'\n{text}{self._mark}")
        own = f"{owner[0]}:{owner[1]}" if owner is not None else ""
        self._ask(f"finish {word} {len(data)} {mode:o} '{own}'")

    def replace(self, old: str, new: str) -> None:
        """Rename a file over another one, atomically."""
        self._ask(f"put {_word(old)} {_word(new)}")

    def rename(self, old: str, new: str) -> None:
        """Rename a file to a name that is free."""
        self._ask(f"name {_word(old)} {_word(new)}")

    def remove(self, path: str) -> None:
        """Delete a file or a link."""
        self._ask(f"rm -- {_word(path)}")

    def make_folder(self, path: str) -> None:
        """Make a folder."""
        self._ask(f"mkdir -- {_word(path)}")

    def list(self, path: str) -> list[tuple[str, RemoteStatus]]:
        """Return the entries of a folder."""
        answer = self._ask(f"entries {_word(path)}", max_bytes=MAX_LISTING_BYTES)
        entries: list[tuple[str, RemoteStatus]] = []
        # No name has a slash in it: a line that begins with two is the next entry's.
        for record in answer.removesuffix(b"\n").removeprefix(b"//").split(b"\n//"):
            if not record:
                continue
            attributes, found, name = record.partition(b" ./")
            if not found or not name or b"/" in name or b"\0" in name:
                raise self._malformed()
            entries.append((_decode(name), self._status(attributes)))
        if len(entries) > MAX_ENTRIES:
            raise OSError(errno.EFBIG, f"it has more than {MAX_ENTRIES:,} entries")
        return entries

    def free_bytes(self, path: str) -> int | None:
        """Return the free space around a path, None where it is not known."""
        match = _FREE().search(_decode(self._ask(f"df -Pk -- {_word(path)}")))
        return int(match[1]) * 1024 if match is not None else None

    def _ask(self, command: str, *, stdin: str = "</dev/null", max_bytes: int = MAX_WORDS_BYTES) -> bytes:
        """Run a command and return its output. `stdin` redirects its input, which is never that of the shell:
        the next request comes there. Raises `OSError` for one that fails."""
        request = f"{{ {command} {stdin}\n}} 2>&1; printf '\\n%s %s\\n' {self._mark} $?\n"
        self._pipes.send(request.encode("utf-8", "surrogateescape"))
        answer = self._pipes.until(f"\n{self._mark} ".encode(), max_bytes)
        if answer is None:
            raise OSError(errno.EFBIG, "it is longer than can be handled")
        code = self._pipes.until(b"\n", 8)
        if code is None or not code.isdigit():
            raise self._malformed()
        if code != b"0":
            raise _refusal(_decode(answer))
        return answer

    def _status(self, text: bytes) -> RemoteStatus:
        match = re.fullmatch(
            rb"([0-9a-f]{1,8}) (\d{1,19}) (-?\d{1,19}) (\d{1,10}) (\d{1,10}) (\d{1,10})", text
        )
        if match is None:
            raise self._malformed()
        size, modified, user, group, links = (int(match[at]) for at in range(2, 7))
        return RemoteStatus(size, int(match[1], 16), modified, (user, group), links)

    def _malformed(self) -> TargetError:
        return self._pipes.broken("its shell gave an answer that can't be understood")


def _word(path: str) -> str:
    return quote(path)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _refusal(text: str) -> OSError:
    lines = [line for line in text.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it was refused"
    number = next((number for words, number in _ERRNO.items() if last.endswith(words)), errno.EIO)
    if number == errno.ENOENT:
        return FileNotFoundError(number, last)
    return OSError(number, last)
