"""Scripted runs leave the rows, show the cards and are read by every door as they were when this was kept."""

import pytest

from tests.goldens.keeping import hold

# One process plays, and its tests stay with it.
pytestmark = [pytest.mark.xdist_group("goldens"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("kind", ["journal", "cells", "terminal", "commands", "magics", "routes", "formats"])
def test_what_is_seen_of_the_scripted_runs_is_what_was_seen(played, kind):
    hold(kind, getattr(played, kind))
