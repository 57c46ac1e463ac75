"""What is remembered from run to run, and how far it is trusted."""
