"""What a shell command would do, judged from its parsed argv, never from its text."""
