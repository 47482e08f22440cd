"""Decisions about calls: the mode table, rules, grants and facts."""
