"""Cards: what a run looks like, as HTML, as plain text and as a record. Pure functions from values to text."""
