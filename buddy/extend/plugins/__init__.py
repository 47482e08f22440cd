"""Plug-in tools of users: loading, isolation and validation."""
