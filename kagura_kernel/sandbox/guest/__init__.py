"""The program that runs inside a box: sent through the pipe at start, standard library only, Python 3.8 or newer.

The host imports nothing of it but `frames`, the words that both ends share. It imports next to nothing, because a box
is ready when it is.
"""
