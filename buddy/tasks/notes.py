"""Notes that wait for the next prompt in the foreground. The journal holds them, and is asked for them: from
being offered until the message that carries them is part of a history, or the person drops them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from buddy.agent.messages import Text, UserMessage
from buddy.sessions.journal import NotSavedError
from buddy.sessions.records import Note
from buddy.sessions.writer import SessionWriter


class Notes:
    """The notes of a session; `focus` names the task whose line of the journal they go on."""

    def __init__(self, memory: SessionWriter, focus: Callable[[], int]) -> None:
        self._memory = memory
        self._focus = focus

    @property
    def waiting(self) -> tuple[Note, ...]:
        """Notes that go along with the next prompt in the foreground. A task's own answer is none there: it
        waits for another task's prompt."""
        front = self._focus()
        return tuple(
            note
            for note in self._memory.notes
            if not note.carried_by and (not note.answer_of or note.answer_of != front)
        )

    def offer(self, note: Note) -> None:
        """Attach it to the next prompt; one with its id that still waits gives way. Raises `NotSavedError`
        once the journal is closed."""
        self._save((*(other for other in self._memory.notes if other.id != note.id), note))

    def drop_last(self) -> None:
        """Take the last one back that waits. Nothing happens where none does."""
        for last in self.waiting[-1:]:
            self._save(note for note in self._memory.notes if note.id != last.id)

    def carried(self, prompt: UserMessage) -> UserMessage:
        """The prompt with all that waits before its words. They leave the journal when it enters a history;
        until then a crash leaves them waiting."""
        notes = self.waiting
        if not notes:
            return prompt
        ids = {note.id for note in notes}
        self._save(
            replace(note, carried_by=prompt.id) if note.id in ids else note for note in self._memory.notes
        )
        parts = (Text(f"[{note.heading}]\n{note.text}\n\n") for note in notes)
        return replace(prompt, parts=(*parts, *prompt.parts))

    def not_carried(self, message_id: str = "") -> None:
        """The message ("": any) will not come, or has come: what it did not take into a history waits
        again."""
        notes = self._memory.notes
        back = [note.id for note in notes if note.carried_by and message_id in ("", note.carried_by)]
        if back:
            with contextlib.suppress(NotSavedError):  # the writer was closed first: it has said what is lost
                self._save(replace(note, carried_by="") if note.id in back else note for note in notes)

    def _save(self, notes: Iterable[Note]) -> None:
        self._memory.record_notes(self._focus(), tuple(notes))
