"""Commands about earned trust, for every surface."""

from __future__ import annotations

from kagura_kernel.cockpit.terminal_commands import JSON, PLACE
from kagura_kernel.domain.categories import CATEGORIES
from kagura_kernel.domain.grammar import BOTH, Argument, Command, Kind

_CATEGORY = Argument(
    "category",
    Kind.CHOICE,
    "as `graduation` lists them",
    choices=tuple(category.name for category in CATEGORIES),
    metavar="CATEGORY",
)
_BOOKS = (JSON, *PLACE)

TRUST_COMMANDS: tuple[Command, ...] = (
    Command(
        "graduation",
        "how far each category of deeds has come towards being asked about no more",
        BOTH,
        options=_BOOKS,
        examples=("graduation",),
        detail="Included is asked as usual, locked every single time, graduated no more. One failure takes it back.",
    ),
    Command(
        "graduation chart",
        "the verified successes of each category over time, and what set it back",
        BOTH,
        options=_BOOKS,
        examples=("graduation chart",),
    ),
    Command(
        "graduation grant",
        "be asked about a category no more; it must have earned that",
        BOTH,
        (_CATEGORY,),
        _BOOKS,
        ("graduation grant git",),
    ),
    Command(
        "graduation vouch",
        "say that a run went well: evidence for the categories in which you had allowed it something",
        BOTH,
        (
            Argument(
                "run", Kind.RUN, "its id or the end of it; `last` is this notebook’s newest, in a terminal the folder’s"
            ),
        ),
        _BOOKS,
        ("graduation vouch last",),
        detail="For what neither an exit code nor a verification can tell. It counts once for a run, from today on.",
    ),
    Command(
        "graduation revoke",
        "be asked about a category every time again, and start its evidence over",
        BOTH,
        (_CATEGORY,),
        _BOOKS,
        ("graduation revoke git",),
    ),
)
