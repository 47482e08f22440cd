"""The errors of sessions that a person reads. `lock.LockedError` is one of them."""

from __future__ import annotations


class SessionError(Exception):
    """A session can't be opened, written or found as requested. The message says why and what to do."""


class NoSuchSessionError(SessionError):
    """No session has that id or name."""


class ForeignSessionError(SessionError):
    """The session was not made by this person on this machine."""


class ReadOnlySessionError(SessionError):
    """The session was written by a newer buddy."""


class FolderError(SessionError):
    """An unusable folder. The message names it and says what to do."""


class NotSavedError(SessionError):
    """Records could not be saved before the journal was closed."""
