"""File tools and the edit engine."""
