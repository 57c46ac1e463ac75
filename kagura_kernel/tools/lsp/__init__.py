"""Language servers: what they know of the workspace's code, as tools for a brain."""
