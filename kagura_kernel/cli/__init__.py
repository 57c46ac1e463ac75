"""The terminal command, one file per subcommand."""
