"""What others may watch of a run: traces and metrics by OpenTelemetry, and logs; derived, never a second truth."""
