"""Atomic exchange and no-replace rename (renameat2, renameatx_np)."""

from __future__ import annotations

import errno
import os
import sys

_CALLS = {"linux": ("renameat2", 2, 1), "darwin": ("renameatx_np", 2, 4)}
"""By platform: the call, its flag to exchange, its flag to replace nothing."""
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
"""Unknown to the system, to the file system, or to a filter of system calls."""


def exchange(one: str, other: str, folder: int) -> bool:
    """Let two names in a folder change places. False where the system can't; then nothing is changed. Raises
    `OSError`."""
    _, flag, _ = _CALLS.get(sys.platform, ("", 0, 0))
    return _renamed(one, folder, other, folder, flag)


def rename_to_free(old: str, old_folder: int, new: str, new_folder: int) -> None:
    """Rename; where the system can do so, never over something. Raises `OSError`."""
    _, _, flag = _CALLS.get(sys.platform, ("", 0, 0))
    if not _renamed(old, old_folder, new, new_folder, flag):
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def _renamed(old: str, old_folder: int, new: str, new_folder: int, flag: int) -> bool:
    if not flag:
        return False
    import ctypes  # 5 ms, and only a session that changes files pays them

    try:
        call = getattr(ctypes.CDLL(None, use_errno=True), _CALLS[sys.platform][0])
    except (OSError, AttributeError):  # an older C library
        return False
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if call(old_folder, os.fsencode(old), new_folder, os.fsencode(new), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), old, None, new)
