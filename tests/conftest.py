"""Every test runs under the guards that ship with the package."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["kagura_kernel.testing.guards", "kagura_kernel.testing.fixtures_docker"]

# By itself hypothesis fails an example that takes 0.2 s, which says more about the machine than about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
