"""How a program in a box uses a leased credential: by a header that is added on the way, by a file, or by variables."""
