"""Keys, the edit buffer, completion and history."""
