"""Whether a link from a box may stand in the project: following it must never lead out, whatever else is applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kagura_kernel.membrane.names import has_control

_MAX_LINKS = 40
_MAX_DEPTH = 64
_MAX_TARGET = 4096


def landing(path: str, target: str) -> list[str] | None:
    """The components, from the project's root, that a link points to; None when it may lead out.

    Only a relative target is accepted whose `..` all stand at its beginning and are no more than there are directories
    above the link. Then the way is the same whether a component turns out to be a directory or a link that is itself
    accepted, and it cannot lead out in either case.
    """
    if not target or target.startswith("/") or len(target) > _MAX_TARGET or "\0" in target or has_control(target):
        return None
    steps = [step for step in target.split("/") if step not in ("", ".")]
    ups = 0
    while ups < len(steps) and steps[ups] == "..":
        ups += 1
    above = path.split("/")[:-1]
    if ups > len(above) or ".." in steps[ups:]:
        return None
    return above[: len(above) - ups] + steps[ups:]


def stays_inside(path: str, target: str, links_at: Callable[[str], Iterable[str]]) -> bool:
    """Whether a link leads to a place in the project by way of directories only.

    Args:
        path: Where the link is to stand.
        target: Where it points.
        links_at: The targets of the links that stand, or are to stand, at a path; none for everything else.
    """
    waiting = [(path, target)]
    known = set(waiting)
    while waiting:
        where, points_to = waiting.pop()
        parts = landing(where, points_to)
        if parts is None or len(parts) > _MAX_DEPTH or len(known) > _MAX_LINKS:
            return False
        for depth in range(1, len(parts)):
            if any(True for _ in links_at("/".join(parts[:depth]))):
                return False
        end = "/".join(parts)
        further = [(end, onward) for onward in (links_at(end) if end else ()) if (end, onward) not in known]
        known.update(further)
        waiting.extend(further)
    return True
