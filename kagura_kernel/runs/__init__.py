"""One run, from prepare to settle, as a stream of events."""
