"""The brain’s tools: every one of them acts inside a box, or asks."""
