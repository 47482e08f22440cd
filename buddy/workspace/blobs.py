"""Contents kept by their hash: written once, made to last, checked when read."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from buddy.agent.cleanup import on_failure
from buddy.agent.tool import ToolError
from buddy.safety.descriptors import make_private_folders
from buddy.workspace.disk import Disk, write_all
from buddy.workspace.files import digest_of


class BlobStore:
    """A folder of contents, made when first needed, readable by its owner only."""

    def __init__(self, folder: str, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def store(self, data: bytes, digest: str = "") -> str:
        """Keep a content; returns its hash, which need not be worked out again where the caller knows it.
        Raises `OSError`; then nothing is kept."""
        digest = digest or digest_of(data)
        path = os.path.join(self._folder, digest)
        if os.path.exists(path):
            return digest
        make_private_folders(self._folder)
        beside = f"{path}.{os.getpid()}.{threading.get_ident()}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with on_failure(os.unlink, beside):
            try:
                write_all(self._disk, descriptor, data)
            finally:
                os.close(descriptor)
            os.rename(beside, path)
        return digest

    def keep(self, data: bytes, digest: str) -> None:
        """Keep a content of this hash if that is possible, without waiting for the disk: something that is
        only needed to merge. A content that did not make it is noticed when it is read."""
        path = os.path.join(self._folder, digest)
        if os.path.exists(path):
            return
        beside = f"{path}.{os.getpid()}.{threading.get_ident()}"
        with suppress(OSError):
            make_private_folders(self._folder)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.rename(beside, path)

    def load(self, digest: str) -> bytes:
        """A content that was kept. Raises `ToolError` when it is gone or is not what it was."""
        try:
            with open(os.path.join(self._folder, digest), "rb") as file:
                data = file.read()
        except FileNotFoundError as error:
            raise ToolError("the content to restore is missing from the session folder") from error
        if digest_of(data) != digest:
            raise ToolError("the content to restore is damaged on disk; nothing was changed")
        return data
