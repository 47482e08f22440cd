"""Pasted or dragged paths of pictures as mentions: `'/home/me/My shot.png'` becomes `@~/My\\ shot.png`.

Terminals paste the path of a file that is dragged onto them: in quotes, with escaped spaces, as it is, or as
a file:// URL, several with blanks or line ends between them.
"""

from __future__ import annotations

import os
import shlex
import stat
from urllib.parse import unquote, urlsplit

from buddy.extend.mentions import write_mention
from buddy.tools.files.read import kind_of

MAX_PICTURES = 10
_HEAD_BYTES = 4_096
_KERNEL_ROOTS = ("/proc/", "/sys/", "/dev/")


def mentions_of_pictures(pasted: str, home: str) -> str:
    """Return the mentions of a pasted text that is the paths of pictures and nothing else; "" otherwise. The
    bytes of a file decide, not its name."""
    text = pasted.strip()
    for paths in (_as_one(text), _as_words(text)):
        if paths and all(_is_picture(path) for path in paths):
            return " ".join(f"@{write_mention(_shortened(path, home))}" for path in paths)
    return ""


def _as_one(text: str) -> list[str]:
    """Return the text as one path, as it stands."""
    return [] if "\n" in text or "\r" in text else [_path_of(text)]


def _as_words(text: str) -> list[str]:
    """Return the paths of a text as a shell reads them."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that does not close
        return []
    return [_path_of(word) for word in words] if 0 < len(words) <= MAX_PICTURES else []


def _path_of(word: str) -> str:
    if not word.startswith("file:"):
        return os.path.expanduser(word) if word.startswith("~/") else word
    try:
        url = urlsplit(word)
    except ValueError:
        return ""
    return unquote(url.path) if url.netloc in ("", "localhost") else ""


def _shortened(path: str, home: str) -> str:
    path = os.path.normpath(path)
    return f"~{path[len(home) :]}" if home not in ("", "/") and path.startswith(f"{home}/") else path


def _is_picture(path: str) -> bool:
    """Look at the first bytes of a regular file. Never waits for a pipe."""
    if not os.path.isabs(path) or os.path.normpath(path).startswith(_KERNEL_ROOTS):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return False
            return kind_of(os.read(descriptor, _HEAD_BYTES), path) == "image"
        finally:
            os.close(descriptor)
    except (OSError, ValueError):  # no such file; a NUL
        return False
