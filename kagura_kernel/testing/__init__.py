"""Fakes and conformance suites that ship with the package, for its own tests and for those who extend it."""
