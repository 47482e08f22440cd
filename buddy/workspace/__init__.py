"""Where it works: files, ignore rules, versions, child processes."""
