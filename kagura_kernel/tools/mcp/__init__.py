"""MCP servers: what they say of their tools, bounded, and calls of them."""
