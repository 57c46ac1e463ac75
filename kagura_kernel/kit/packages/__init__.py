"""Where the commands of toolsets are installed from."""
