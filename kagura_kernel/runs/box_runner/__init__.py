"""What runs inside a box beside a program: it hands variables over and takes results.

These files are sent into the box's private /tmp and are a package of their own there. Standard library only, and only
what a program needs is imported: pandas, NumPy, pyarrow and matplotlib when a variable or a result is made of them.
The kernel uses `plain`, `pack` and `frames` as well, so that both sides pack and unpack by the same code.
"""
