"""Live cards: the same parts as a saved card, with buttons that work and clocks that tick."""
