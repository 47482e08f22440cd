"""The sandbox for child processes: its capabilities on this machine, and the confinement of each command."""
