"""Every test runs under the guards that ship with the package."""

from __future__ import annotations

pytest_plugins = ["kagura_kernel.testing.guards", "kagura_kernel.testing.fixtures_docker"]
