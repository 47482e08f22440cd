"""Slash commands: one module per family, one registry."""
