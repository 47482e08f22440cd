"""Reading, writing and tracking of workspace files."""
