"""Extensions by others: instruction files, skills, commands, hooks, servers."""
