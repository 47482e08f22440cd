"""The core of buddy: the loop, its records and its protocols. Pure."""
