"""The wall: what a run is given, and what crosses."""
