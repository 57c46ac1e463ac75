"""The memory in Kagura Memory Cloud, or in a server of one's own that speaks like it."""
