"""The sections of a run's card, each as blocks: what a card, its text and a terminal are drawn from."""

from __future__ import annotations

from kagura_kernel.render.blocks import Blocks
from kagura_kernel.views.network import network_blocks
from kagura_kernel.views.run import RunView


def network(view: RunView, *, live: bool) -> Blocks:
    """Its foot: what was refused, and what was reached."""
    return network_blocks(view.network, steady=view.repeatable and not live, live=live)
