"""The picture on the person's clipboard, through the program that this desktop has for it.

Terminals pass only text; a picture has to be fetched from the desktop itself. Over ssh there is none: the
clipboard is on the other machine.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from buddy.safety.paths import make_private_folders
from buddy.workspace.files.picture_header import media_type_of
from buddy.workspace.processes.launch import trusted_program

MAX_PICTURE_BYTES = 50_000_000
PROGRAM_S = 5.0
POWERSHELL_S = 20.0
KEPT_S = 7 * 24 * 3600.0
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_TYPES = (*_ENDINGS, "image/bmp", "image/tiff")
"""In order of preference; the last two are converted before they are sent."""
_ENVIRONMENT = (
    *("PATH", "HOME", "LANG", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"),
    *("WSL_DISTRO_NAME", "WSL_INTEROP", "__CF_USER_TEXT_ENCODING"),
)
_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$i=[System.Windows.Forms.Clipboard]::GetImage();"
    "if($i -ne $null){$s=New-Object IO.MemoryStream;"
    "$i.Save($s,[System.Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($s.ToArray())}"
)

Run = Callable[[Sequence[str], float], bytes | None]
"""Runs a program for so many seconds at most; returns its output, None when it failed or was stopped."""


class ClipboardError(Exception):
    """There is no picture to paste: one sentence."""


class Desktop(msgspec.Struct, frozen=True):
    """The surroundings of the program. Programs below `workspace` are never run: a project may have put them
    there. None runs longer than `limit_s`."""

    environ: Mapping[str, str]
    platform: str
    workspace: str
    limit_s: float = POWERSHELL_S


def picture_on_clipboard(desktop: Desktop) -> bytes:
    """Return the picture. Blocks; raises `ClipboardError`."""

    def run(argv: Sequence[str], seconds: float) -> bytes | None:
        return _output(argv, min(seconds, desktop.limit_s), desktop.environ)

    readers = _readers(desktop)
    usable = [(name, path, read) for name, read in readers if (path := _find(name, desktop))]
    if not usable:
        raise ClipboardError(_advice(desktop, [name for name, _ in readers]))
    for _, path, read in usable:
        data = read(path, run)
        if data and len(data) > MAX_PICTURE_BYTES:
            raise ClipboardError(f"the picture on the clipboard has more than {MAX_PICTURE_BYTES:,} bytes")
        if data and (media_type_of(data) or data.startswith((b"BM", b"II*\0", b"MM\0*"))):
            return data
    raise ClipboardError("the clipboard holds no picture; text is pasted with your terminal's own key")


def save_picture(data: bytes, folder: str, now: float) -> str:
    """Write a picture to a private folder, from which old ones go; return its path. Raises `OSError`."""
    make_private_folders(folder)
    for entry in os.scandir(folder):
        if entry.is_file(follow_symlinks=False) and now - entry.stat(follow_symlinks=False).st_mtime > KEPT_S:
            os.unlink(entry.path)
    ending = _ENDINGS.get(media_type_of(data), ".bmp" if data.startswith(b"BM") else ".tiff")
    name = f"clip-{time.strftime('%H%M%S', time.localtime(now))}-{os.urandom(2).hex()}{ending}"
    path = os.path.join(folder, name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path


_Reader = Callable[[str, Run], bytes | None]


def _readers(desktop: Desktop) -> list[tuple[str, _Reader]]:
    """Return the programs that may read this desktop's clipboard, best first."""
    if desktop.platform == "darwin":
        return [("pngpaste", _pngpaste), ("osascript", _osascript)]
    readers: list[tuple[str, _Reader]] = []
    if desktop.environ.get("WSL_DISTRO_NAME") or desktop.environ.get("WSL_INTEROP"):
        readers.append(("powershell.exe", _powershell))
    if desktop.environ.get("WAYLAND_DISPLAY"):
        readers.append(("wl-paste", _wl_paste))
    if desktop.environ.get("DISPLAY"):
        readers.append(("xclip", _xclip))
    return readers


def _advice(desktop: Desktop, names: list[str]) -> str:
    if names:
        return f"no program here reads pictures from the clipboard: install {' or '.join(names)}"
    if desktop.environ.get("SSH_CONNECTION"):
        return "the clipboard is on your own machine: copy the picture here as a file and write @FILE"
    return "there is no desktop here, so no clipboard: save the picture as a file and write @FILE"


def _find(name: str, desktop: Desktop) -> str:
    return trusted_program(name, desktop.environ.get("PATH", ""), desktop.workspace) or ""


def _wl_paste(path: str, run: Run) -> bytes | None:
    kind = _offered(run((path, "--list-types"), PROGRAM_S))
    return run((path, "--no-newline", "--type", kind), PROGRAM_S) if kind else None


def _xclip(path: str, run: Run) -> bytes | None:
    clipboard = (path, "-selection", "clipboard", "-o", "-t")
    kind = _offered(run((*clipboard, "TARGETS"), PROGRAM_S))
    return run((*clipboard, kind), PROGRAM_S) if kind else None


def _offered(listed: bytes | None) -> str:
    """Return the best kind of picture in a list of types, "" for none."""
    types = (listed or b"").decode("ascii", "replace").split()
    return next((kind for kind in _TYPES if kind in types), "")


def _pngpaste(path: str, run: Run) -> bytes | None:
    return run((path, "-"), PROGRAM_S)


def _osascript(path: str, run: Run) -> bytes | None:
    """Return the bytes of `«data PNGf89504E47…»`."""
    out = run((path, "-e", "get the clipboard as «class PNGf»"), PROGRAM_S) or b""
    _, mark, rest = out.partition(b"PNGf")
    try:
        return bytes.fromhex(rest.partition("»".encode())[0].decode("ascii")) if mark else None
    except ValueError:
        return None


def _powershell(path: str, run: Run) -> bytes | None:
    options = ("-NoProfile", "-NonInteractive", "-STA", "-Command", _POWERSHELL)
    try:
        return base64.b64decode((run((path, *options), POWERSHELL_S) or b"").strip(), validate=True)
    except binascii.Error:
        return None


def _output(argv: Sequence[str], seconds: float, environ: Mapping[str, str]) -> bytes | None:
    environment = {name: environ[name] for name in _ENVIRONMENT if name in environ}
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except OSError:
        return None

    def stop() -> None:
        # The group: a program that it started, too, holds the pipe open.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)

    late = threading.Timer(seconds, stop)
    late.start()
    with child:
        try:
            assert child.stdout is not None
            data = child.stdout.read(2 * MAX_PICTURE_BYTES + 1)  # hexadecimal digits are twice as long
            if len(data) > 2 * MAX_PICTURE_BYTES:
                stop()
            child.wait()
        finally:
            late.cancel()
    return data if child.returncode == 0 else None
