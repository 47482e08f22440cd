"""Judges of programs: what each may do without a question."""
