"""What others add: instruction files, skills, commands, hooks, servers."""
