"""Conformance suites: what every adapter of a protocol promises, as pytest classes to subclass."""
