"""buddy's own git commands: runs, configuration, diffs, staging."""
