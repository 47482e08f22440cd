"""Front ends without a terminal over the same events."""
