"""Sessions on disk: journal, snapshot, repair, list, export."""
