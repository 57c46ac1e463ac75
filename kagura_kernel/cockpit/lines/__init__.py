"""What a person types: read, helped with, completed and explained, by the one list of commands."""
