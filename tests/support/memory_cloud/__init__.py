"""Kagura Memory Cloud on the loopback, as its public client expects it, for tests."""
