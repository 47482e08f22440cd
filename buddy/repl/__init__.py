"""Terminal front end: the only code that knows keys, colours and lines."""
