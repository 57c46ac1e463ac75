"""The brain's hands: every one of them acts inside a box, or asks."""
