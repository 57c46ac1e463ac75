"""Kill -9 at random moments in the life of leases: afterwards the provider's books hold nothing that nobody owns."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import owner_alive, process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.broker import CredentialBroker
from kagura_kernel.membrane.credentials.lease import Budget, Grants, Holder, parse_grant
from kagura_kernel.membrane.credentials.revoke import Settler
from kagura_kernel.testing.credential_service import SCOPE
from kagura_kernel.testing.patience import eventually
from tests.support.credential_life import Lives
from tests.support.credential_rigs import cloudflare_rig

MOMENTS = 50


def states_of(ledger: LeaseLedger, run_id: str) -> set[str]:
    return {row.state for row in ledger.open_rows() if row.run_id == run_id}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_after_a_kill_at_any_moment_the_next_start_leaves_no_credential_that_no_run_owns(tmp_path):
    chance = random.Random(20)
    journal = Journal.open(tmp_path)
    ledger = LeaseLedger(journal)
    states: set[str] = set()
    with cloudflare_rig() as rig, Lives() as lives:
        provider = rig.provider(timeout=10)
        broker = CredentialBroker(
            ledger,
            {"cloudflare": provider},
            Grants([parse_grant(f"cloudflare:{SCOPE}")]),
            Holder("run-of-a-living-process", "ses-1", process_owner()),
        )
        mine = await broker.acquire("cloudflare", SCOPE, budget=Budget())
        held = {broker.credential(mine.id).main.reveal()}
        for moment in range(MOMENTS):
            pid = lives.start(home=str(tmp_path), url=rig.service.url, seed=moment)
            await asyncio.to_thread(time.sleep, chance.uniform(0.01, 0.4))
            if moment % 5 == 0:
                # On a machine that is busy a moment may come before the first credential.
                await eventually(lambda run=f"run-{moment}": "live" in states_of(ledger, run))
            lives.kill(pid)
            rig.service.wait_idle()
            states |= states_of(ledger, f"run-{moment}")
            # Two starts at once, as after a crash of the machine.
            one, two = [
                Settler(ledger, {"cloudflare": provider}, process_owner(), owner_alive).sweep() for _ in range(2)
            ]
            reports = await asyncio.gather(one, two)
            assert set(rig.live()) == held, f"moment {moment}: {reports}"
        assert broker.credential(mine.id).main.reveal() in held
        await broker.close()
        assert rig.live() == {}
    assert {row.state for row in ledger.open_rows()} <= {"owed"}  # mints that never arrived wait out their two minutes
    assert {"live", "minting"} <= states, "no kill hit the moments that matter"
    journal.close()
