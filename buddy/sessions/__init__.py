"""What it remembers: journal, snapshot, repair, list, export."""
