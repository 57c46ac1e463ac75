"""Variables of a cell: out of the person's namespace into a box, and back. Never pickle, in either direction."""

from kagura_kernel.jupyter.variables.assigning import bring_back
from kagura_kernel.jupyter.variables.gathering import inputs_of

__all__ = ["bring_back", "inputs_of"]
