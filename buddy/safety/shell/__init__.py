"""Analysis of a shell command's effects from its parsed argv, never from its text."""
