"""MCP servers: their definitions, connections, tools, resources and prompts."""
