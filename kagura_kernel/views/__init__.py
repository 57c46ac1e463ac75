"""What people see of a run: its events folded into one value, and what is said of it."""
