"""The sections of a run's card, each as blocks: what a card, its text and a terminal are drawn from."""

from __future__ import annotations

from kagura_kernel.render.blocks import Blocks
from kagura_kernel.views.head import head_blocks
from kagura_kernel.views.leases import leases_blocks
from kagura_kernel.views.network import network_blocks
from kagura_kernel.views.run import RunView


def head(view: RunView, *, live: bool) -> Blocks:
    """Its head."""
    return head_blocks(view, live=live)


def leases(view: RunView, *, live: bool) -> Blocks:
    """The credentials that it holds, or held."""
    over = view.finished is not None
    return leases_blocks(view.leases, view.now, steady=view.repeatable, is_over=over, live=live)


def network(view: RunView, *, live: bool) -> Blocks:
    """Its foot: what was refused, and what was reached."""
    return network_blocks(view.network, steady=view.repeatable and not live, live=live)
