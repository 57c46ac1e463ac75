"""What each carrier of secrets looks like: one file for each family, each a function from a text to spans."""
