"""Hooks: commands and callbacks that run at named points of a session."""
