"""What is run in a box to see whether a tool is there, and to fetch one from a release.

Each file is a program by itself, sent to `python3 -I -` on its standard input. Standard library only, for Python 3.8
and newer. What they print is a box's word.
"""
