"""Settings and how they are read."""
