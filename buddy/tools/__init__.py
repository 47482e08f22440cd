"""What buddy can do: one module per kind of action."""
