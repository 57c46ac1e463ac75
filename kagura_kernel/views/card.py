"""The sections of a run's card, each as blocks: what a card, its text and a terminal are drawn from."""

from __future__ import annotations

from kagura_kernel.render.blocks import Blocks
from kagura_kernel.views.approvals import ask_block, many_block
from kagura_kernel.views.head import head_blocks
from kagura_kernel.views.kit import kit_blocks
from kagura_kernel.views.learned import learned_blocks
from kagura_kernel.views.leases import leases_blocks
from kagura_kernel.views.network import network_blocks
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.run import RunView


def head(view: RunView, *, live: bool) -> Blocks:
    """Its head."""
    return head_blocks(view, live=live)


def kit(view: RunView, *, live: bool) -> Blocks:
    """What its agent brought along."""
    return kit_blocks(view.kit, steady=view.repeatable and not live)


def learned(view: RunView, *, live: bool) -> Blocks:
    """Its plan, and what it was shown of the memory."""
    # What a waiting question is about lies open, also just before it is there: a card that was drawn folded stays so.
    asks = live and (view.learned.asks or any(one.request.subject == "plan" for one in view.pending))
    return learned_blocks(view.learned, steady=view.repeatable and not live, unfolded=asks)


def leases(view: RunView, *, live: bool) -> Blocks:
    """The credentials that it holds, or held."""
    over = view.finished is not None
    return leases_blocks(view.leases, view.now, steady=view.repeatable, is_over=over, live=live)


def ask(item: Ask, view: RunView, *, live: bool) -> Blocks:
    """One of its questions."""
    return (ask_block(item, view.calls, view.now, can_answer=live and view.finished is None),)


def many(view: RunView, *, live: bool) -> Blocks:
    """One word for all questions that wait; nothing unless several do.

    All can be allowed at once where every one of them is about the network.
    """
    waiting = [one for one in view.pending if one.request.subject != "question"]
    if not live or view.finished is not None or len(waiting) <= 1:
        return ()
    network_alone = len(waiting) == len(view.pending) and all(one.request.subject == "network" for one in waiting)
    return (many_block(waiting, may_allow=network_alone),)


def network(view: RunView, *, live: bool) -> Blocks:
    """Its foot: what was refused, and what was reached."""
    return network_blocks(view.network, steady=view.repeatable and not live, live=live)
