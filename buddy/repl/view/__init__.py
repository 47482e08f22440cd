"""The view state and its rows: pure functions of the events."""
