"""What an agent needs from the host, staged without secrets."""
