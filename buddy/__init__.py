"""buddy: a coding assistant for the terminal whose prompt never goes away."""

__version__ = "0.1.0"
