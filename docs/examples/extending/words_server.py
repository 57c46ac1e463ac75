"""An MCP server of one's own; it runs in the run's box."""

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:  # version 1 of the library
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("words")


@server.tool()
def longest(text: str) -> str:
    """The longest word of a text."""
    return max(text.split(), key=len)


if __name__ == "__main__":
    server.run()
