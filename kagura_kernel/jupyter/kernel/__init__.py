"""The `kagura` kernel: IPython's kernel, in which a plain cell is a prompt."""
