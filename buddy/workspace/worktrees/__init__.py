"""Git worktrees of tasks, and what changed in them."""
