"""Which back-end a run gets, and the reason that its card tells."""

import os

import pytest

from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.domain.policy import HOST, SandboxPolicy
from kagura_kernel.domain.settings import SandboxPolicyType, Settings
from kagura_kernel.runtime.host_box import HostBackend
from kagura_kernel.sandbox.backend import BoxSpec


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (SandboxPolicyType.WORKSPACE_WRITE, "the setting `fallback_to_host` is on"),
        (SandboxPolicyType.EXTERNAL, "the policy of your settings is external_sandbox"),
    ],
)
async def test_a_run_without_a_box_says_which_setting_lets_it(policy, reason, monkeypatch):
    async def start(self, spec):
        del self, spec

    monkeypatch.setattr(HostBackend, "start", start)
    boxes = Boxes(os.environ, Settings(), "me")
    launched = await boxes.start(HOST, BoxSpec(policy=SandboxPolicy(policy)))
    await boxes.close()
    assert launched.reason == reason
