"""Lookup of the kinds of objects a revision may name, without running git.

A blob has no path, so git shows it even when it holds a secret file.
"""

from __future__ import annotations

import mmap
import os
import re
import zlib
from collections.abc import Iterator

from buddy.agent.lazy_regex import pattern
from buddy.safety.git_repository import read_regular, shared_folder

MAX_REFS_BYTES = 50_000_000
_MAX_FILE_BYTES = 8192
_MAX_DEPTH = 5
_MAX_DELTAS = 60
_HEADER_BYTES = 512
"""Enough of an object to hold the lines of a tag that name its target."""

_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_HASH = pattern(r"[0-9a-f]{4,64}")
_DESCRIBED = pattern(r"(?s:.*)-g([0-9a-fA-F]{4,64})")
"""A name as `git describe` prints it. git looks for the hash at its end whatever stands before, a colon too:
`HEAD:a-g1234567` is the object 1234567, not the file of that name."""
_WORKTREES = pattern(r"\A(?:main-worktree|worktrees/[^/]+)/")
"""Before the name of a reference of another working tree."""

_SUFFIXES = pattern(r"(?:\^\{[^}]*\}|@\{[^}]*\}|[~^][0-9]*)*\Z")
_TAG_TARGET = pattern(rb"object ([0-9a-f]{40,64})\ntype ([a-z]+)\n")
_SHA_256 = pattern(rb"(?i)objectformat\s*=\s*\"?sha256")
_NAMESPACES = ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")


class Objects:
    """The objects of one repository. `kinds` looks up a name each time it is asked."""

    def __init__(self, git_dir: str) -> None:
        self._git_dirs = tuple(dict.fromkeys((git_dir, *shared_folder(git_dir))))
        shared = self._git_dirs[-1]
        wide = _SHA_256().search(read_regular(f"{shared}/config", _MAX_FILE_BYTES))
        self._hash_bytes = 32 if wide else 20
        self._stores = tuple(_stores(f"{shared}/objects"))
        self._has_other_refs = os.path.isdir(f"{shared}/reftable")

    def kinds(self, revision: str) -> frozenset[str]:
        """Return the kinds of the objects that one revision (no range) may name: commit, tree, blob or tag,
        and "unknown" for one that could not be read. A name nothing has is of no kind."""
        base, suffix = _without_suffixes(revision)
        if re.search(r"\^\{(?:blob|object)\}", suffix):
            return frozenset({"blob"})
        if re.search(r"~|\^(?!\{)|\^\{(?:commit\}|/)", suffix):
            return frozenset({"commit"})  # git takes these of commits alone
        found: set[str] = set()
        described = _DESCRIBED().fullmatch(base)
        for name in (base, *(described.groups() if described else ())):
            found.update(self._kinds_of_hash(name.lower(), 0))
        targets = list(self._targets(_WORKTREES().sub("", base), 0))
        for target in targets:
            found.update(self._kinds_of_hash(target, 0))
        is_name = base not in ("", "@", "HEAD") and ":" not in base  # no reference holds a colon
        if is_name and not targets and not found and self._has_other_refs:
            return frozenset({"unknown"})
        return frozenset(found - {"blob"} if "^{tree}" in suffix else found)

    def _targets(self, name: str, depth: int) -> Iterator[str]:
        """Yield the hashes that a name stands for, under every name git would try."""
        if not name or name.startswith(("/", "-")) or ".." in name or depth > _MAX_DEPTH:
            return
        name = "HEAD" if name == "@" else name
        spellings = [space.format(name) for space in _NAMESPACES]
        for git_dir in self._git_dirs:
            for spelling in spellings:
                text = (
                    read_regular(f"{git_dir}/{spelling}", _MAX_FILE_BYTES).decode("ascii", "replace").strip()
                )
                if text.startswith("ref:"):
                    yield from self._targets(text[4:].strip(), depth + 1)
                elif text:
                    yield text.split()[0]
            packed = read_regular(f"{git_dir}/packed-refs", MAX_REFS_BYTES)
            for spelling in spellings:
                for line in re.finditer(
                    rb"(?m)^([0-9a-f]{40,64}) " + re.escape(spelling.encode()) + rb"$", packed
                ):
                    yield line[1].decode("ascii")

    def _kinds_of_hash(self, hash_or_part: str, depth: int) -> Iterator[str]:
        if _HASH().fullmatch(hash_or_part) is None or depth > _MAX_DEPTH:
            return
        for store in self._stores:
            yield from self._loose(store, hash_or_part, depth)
            yield from self._kinds_in_packs(store, hash_or_part, depth)

    def _loose(self, store: str, part: str, depth: int) -> Iterator[str]:
        folder = f"{store}/{part[:2]}"
        try:
            names = [name for name in os.listdir(folder) if name.startswith(part[2:])]
        except OSError:
            return
        for name in names:
            try:
                data = zlib.decompressobj().decompress(
                    read_regular(f"{folder}/{name}", _MAX_FILE_BYTES), _HEADER_BYTES
                )
            except zlib.error:
                yield "unknown"
                continue
            head, _, content = data.partition(b"\0")
            yield from self._peel(head.partition(b" ")[0].decode("ascii", "replace"), content, depth)

    def _kinds_in_packs(self, store: str, part: str, depth: int) -> Iterator[str]:
        try:
            names = [name for name in os.listdir(f"{store}/pack") if name.endswith(".idx")]
        except OSError:
            return
        for name in names:
            index = _map_pack(f"{store}/pack/{name}")
            offsets = _offsets(index, part, self._hash_bytes) if index is not None else None
            if offsets is None:
                yield "unknown"
                continue
            data = _map_pack(f"{store}/pack/{name.removesuffix('.idx')}.pack") if offsets else None
            for offset in offsets:
                yield from self._entry(data, offset, depth) if data is not None else ("unknown",)

    def _entry(self, data: mmap.mmap, offset: int, depth: int) -> Iterator[str]:
        """Yield the kind of an entry of a pack; that of a delta is its base's."""
        for _ in range(_MAX_DELTAS):
            if not 0 < offset < len(data):
                break
            number, at = data[offset] >> 4 & 7, offset
            while data[at] & 0x80 and at + 1 < len(data):
                at += 1
            at += 1
            if number in _KINDS:
                try:
                    content = zlib.decompressobj().decompress(data[at : at + _MAX_FILE_BYTES], _HEADER_BYTES)
                except zlib.error:
                    break
                yield from self._peel(_KINDS[number], content, depth)
                return
            if number == _REFERENCE_DELTA:
                yield from self._kinds_of_hash(data[at : at + self._hash_bytes].hex(), depth + 1)
                return
            if number != _OFFSET_DELTA:
                break
            back = data[at] & 0x7F
            while data[at] & 0x80 and at + 1 < len(data):
                at += 1
                back = ((back + 1) << 7) | (data[at] & 0x7F)
            offset -= back
        yield "unknown"

    def _peel(self, kind: str, content: bytes, depth: int) -> Iterator[str]:
        """Yield the kind, and for a tag that of what it names: that is shown, too."""
        yield kind if kind in _KINDS.values() else "unknown"
        if kind == "tag":
            target = _TAG_TARGET().match(content)
            if target is None:
                yield "unknown"
            elif target[2] == b"tag":
                yield from self._kinds_of_hash(target[1].decode("ascii"), depth + 1)
            else:
                yield target[2].decode("ascii")


def revisions(word: str) -> Iterator[str]:
    """Yield the single revisions in a word that may be a range or an exclusion."""
    for part in re.split(r"\.\.\.?", word.removeprefix("^")):
        if part:
            yield part


def split_path(revision: str) -> tuple[str, str | None]:
    """Return a revision and the path behind it, None without one. A colon in braces belongs to a date or a
    search: `HEAD@{12:00}:src/main.py`."""
    depth = 0
    for at, sign in enumerate(revision):
        if sign == "{":
            depth += 1
        elif sign == "}" and depth:
            depth -= 1
        elif sign == ":" and not depth:
            return revision[:at], revision[at + 1 :]
    return revision, None


def paths_within(word: str) -> Iterator[str]:
    """Yield every part of a revision or range that may be the path of `revision:path`: the text behind each
    colon, of the whole and of both ends."""
    for text in dict.fromkeys((word, *revisions(word))):
        for colon in re.finditer(":", text):
            yield text[colon.end() :]


def _without_suffixes(revision: str) -> tuple[str, str]:
    found = _SUFFIXES().search(revision)
    at = found.start() if found else len(revision)
    return revision[:at], revision[at:]


def _stores(objects: str, depth: int = 0) -> Iterator[str]:
    """Yield the folder of a repository's objects, and those it borrows from."""
    yield objects
    if depth >= _MAX_DEPTH:
        return
    for line in read_regular(f"{objects}/info/alternates", 65_536).splitlines():
        if line and not line.startswith(b"#"):
            borrowed = os.path.normpath(os.path.join(objects, os.fsdecode(line)))
            yield from _stores(borrowed, depth + 1)


def _map_pack(path: str) -> mmap.mmap | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)


def _offsets(index: mmap.mmap, part: str, hash_bytes: int) -> list[int] | None:
    """Return the offsets of a pack's objects whose hash begins so; None for an index of another kind."""
    if index[:8] != b"\xfftOc\x00\x00\x00\x02" or len(index) < 8 + 1024:
        return None
    low_hash = bytes.fromhex(part.ljust(2 * hash_bytes, "0"))
    first = low_hash[0]

    def number(at: int, size: int = 4) -> int:
        return int.from_bytes(index[at : at + size], "big")

    count = number(8 + 4 * 255)
    low = number(8 + 4 * (first - 1)) if first else 0
    high = end = number(8 + 4 * first)
    hashes = 8 + 1024
    if len(index) < hashes + count * (hash_bytes + 8):
        return None
    while low < high:
        middle = (low + high) // 2
        if index[hashes + middle * hash_bytes : hashes + (middle + 1) * hash_bytes] < low_hash:
            low = middle + 1
        else:
            high = middle
    found: list[int] = []
    offsets = hashes + count * (hash_bytes + 4)
    while low < end:
        at = hashes + low * hash_bytes
        if not index[at : at + hash_bytes].hex().startswith(part):
            break
        offset = number(offsets + 4 * low)
        if offset & 0x80000000:
            offset = number(offsets + 4 * count + 8 * (offset & 0x7FFFFFFF), 8)
        found.append(offset)
        low += 1
    return found
