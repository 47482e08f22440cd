"""Extensions by others: instruction files, mentions, plug-ins, the manual."""
