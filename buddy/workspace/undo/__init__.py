"""The undo log, restores, moves and the trash."""
