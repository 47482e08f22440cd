"""What buddy is: the loop, its records and its protocols. Pure."""
