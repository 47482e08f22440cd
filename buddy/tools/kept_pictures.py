"""Paid pictures that cannot be written where they belong: kept in another place, which is named."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from buddy.agent.formatting import format_count
from buddy.safety.sanitise import visible
from buddy.workspace.files.picture_header import media_type_of
from buddy.workspace.files.store import digest_of

_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def keep_pictures(session_folder: str, pictures: Sequence[bytes], cost: str) -> str:
    """Write pictures into the session's folder, or a temporary one where that cannot be written. Return a
    sentence about where they are and that they are paid for (`cost`). Blocks."""
    paid = f"{format_count(len(pictures), 'picture')} already paid for ({cost})"
    kept = _write_all(session_folder, pictures)
    if not kept:
        import tempfile  # needed for such pictures only

        with contextlib.suppress(OSError):
            kept = _write_all(tempfile.mkdtemp(prefix="buddy-pictures-"), pictures)
    if not kept:
        return f"{paid} could not be kept anywhere: make room on the disk before you order again"
    return f"{paid}, kept as {', '.join(map(visible, kept))}: move from there instead of ordering again"


def _write_all(folder: str, pictures: Sequence[bytes]) -> list[str]:
    """Return the paths of the written pictures; none where not all of them could be written."""
    written: list[str] = []
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for data in pictures:
            path = _unused_path(folder, data)
            descriptor = os.open(path, _NEW, 0o600)
            written.append(path)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
    except OSError:
        for path in written:
            with contextlib.suppress(OSError):
                os.unlink(path)
        return []
    return written


def _unused_path(folder: str, data: bytes) -> str:
    stem = os.path.join(folder, f"picture-{digest_of(data)[:12]}")
    ending = _ENDINGS.get(media_type_of(data), "")
    path, number = f"{stem}{ending}", 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}-{number}{ending}"
    return path
