"""The Agent Client Protocol: buddy inside an editor, over stdin and stdout."""
