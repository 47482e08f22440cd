"""The sandbox for child processes: what it can do here, and what each command gets."""
