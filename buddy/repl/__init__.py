"""What you see: the only code that knows keys, colours and lines."""
