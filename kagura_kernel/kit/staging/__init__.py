"""From a definition to a kit: planned as a value, copied without secrets, swapped in."""
