"""Text, Markdown, code, tables and diffs as styled rows. Pure."""
