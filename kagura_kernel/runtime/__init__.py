"""Where a command runs, and running it there."""
