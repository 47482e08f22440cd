"""Detection and redaction of secrets in text."""
