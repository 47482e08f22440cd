"""Other machines that tasks work on: ssh connections, their files and their commands."""
