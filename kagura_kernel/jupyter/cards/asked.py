"""What an approval on a card would let happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kagura_kernel.domain.asked import Asked
from kagura_kernel.domain.asked import asked as parts_of

if TYPE_CHECKING:
    from kagura_kernel.domain.events import ApprovalRequested


def asked(request: ApprovalRequested) -> Asked:
    """The parts of one request."""
    return parts_of(request.subject, request.title, request.detail, request.arguments)
