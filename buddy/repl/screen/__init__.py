"""The inline screen: live region, scrollback and terminal status."""
