"""Conversations in flight: the task board, its events, its approvals."""
