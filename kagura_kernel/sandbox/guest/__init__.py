"""The program that runs inside a box: sent through the pipe at start, standard library only, Python 3.8 or newer.

Other rooms import nothing of it but `frames`, the words that both ends share. It imports next to nothing, because a
box is ready when it is; what only listeners need (`listeners`, `clients`, `proxy`, `socks`) is loaded with the first
of them.
"""
