"""The composition root: builds a session from settings; knows no front end."""
