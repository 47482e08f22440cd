"""The tools a model can call: one module per kind of action."""
