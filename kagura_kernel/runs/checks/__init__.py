"""Whether bytes that come out of a box are what they say they are, found out without running or believing them."""
