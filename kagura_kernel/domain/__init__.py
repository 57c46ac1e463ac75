"""The words of kagura-kernel: values, events and errors. Nothing here does I/O."""
