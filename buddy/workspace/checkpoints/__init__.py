"""Checkpoints: snapshots of the workspace in a private git repository."""
