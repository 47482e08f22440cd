"""Child processes: launch, output, limits, termination, jobs."""
