"""What texts mean, as vectors: an optional extra, of NumPy and the weights of a small model alone."""
