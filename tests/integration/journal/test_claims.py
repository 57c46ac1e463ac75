"""Quotas of boxes, on SQLite and on PostgreSQL: processes that race, that die, and that cannot be seen from here."""

import subprocess
import sys
from datetime import timedelta

import pytest

from kagura_kernel.domain.errors import QuotaReached
from kagura_kernel.journal import schema
from kagura_kernel.journal.claims import FORGET, LAPSE, BoxQuota, Claim, Claims
from kagura_kernel.journal.lost_runs import lose
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.clock import FakeClock
from tests.support.sample_run import SampleRun

RACER = """
import sys
from kagura_kernel.domain.errors import QuotaReached
from kagura_kernel.journal.claims import BoxQuota, Claim, Claims
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal

journal = Journal.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    Claims(journal).take(Claim(sys.argv[2], sys.argv[2], "ada", process_owner(), 2.0, 4096), BoxQuota(boxes=2))
    print("taken", flush=True)
    sys.stdin.readline()
except QuotaReached as error:
    print("reached", error.message, flush=True)
"""


def claim(number: int, user: str = "ada", owner: str = "", **more: float) -> Claim:
    cpus, memory = more.get("cpus", 2.0), int(more.get("memory", 4096))
    return Claim(f"c-{number}", f"run-{number}", user, owner or process_owner(), cpus, memory)


def test_of_processes_that_begin_at_once_as_many_have_a_box_as_may_and_the_dead_make_room(open_journal, where):
    journal = open_journal()
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, where, f"run-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(5)
    ]
    try:
        for one in racers:
            assert one.stdout.readline() == "ready\n"
        for one in racers:
            one.stdin.write("\n")
            one.stdin.flush()
        said = [one.stdout.readline() for one in racers]
        winners = [one for one, line in zip(racers, said, strict=True) if line == "taken\n"]
        assert (len(winners), sum(line.startswith("reached") for line in said)) == (2, 3)
        claims = Claims(journal)
        holders = {held.run_id for held in claims.held("ada")}
        assert len(holders) == 2
        # Whoever was refused was told who has them.
        assert all(name in line for line in said if line.startswith("reached") for name in holders)
        with pytest.raises(QuotaReached):
            claims.take(claim(9), BoxQuota(boxes=2))
        winners[0].kill()
        winners[0].wait()
        claims.take(claim(9), BoxQuota(boxes=2))
        assert len(claims.held("ada")) == 2
    finally:
        for one in racers:
            one.kill()
            one.wait()
            one.stdin.close()
            one.stdout.close()


@pytest.mark.parametrize(
    ("quota", "setting", "said"),
    [
        (BoxQuota(boxes=2), "quota_boxes", "is 2 for all your runs together. Of that 2 is taken by run-1"),
        (BoxQuota(cpus=5.0), "quota_cpus", "is 5 cores for all your runs together. Of that 4 cores is"),
        (
            BoxQuota(memory_mib=10000),
            "quota_memory_mib",
            "10000 MiB for all your runs together. Of that 8192 MiB is",
        ),
    ],
)
def test_each_quota_counts_what_all_boxes_together_have(journal, quota, setting, said):
    claims = Claims(journal)
    for number in (1, 2):
        claims.take(claim(number), quota)
    with pytest.raises(QuotaReached) as caught:
        claims.take(claim(3), quota)
    assert caught.value.setting == setting
    assert said in caught.value.message
    assert "by run-1, run-2" in caught.value.message
    claims.free("c-1")
    claims.free("c-1")
    claims.take(claim(3), quota)
    assert [held.id for held in claims.held("ada")] == ["c-2", "c-3"]


def test_a_box_that_is_too_large_by_itself_is_said_to_be(journal):
    with pytest.raises(QuotaReached, match=r"0 MiB is taken, and the box that this run needs takes 8192 MiB\. Ask the"):
        Claims(journal).take(claim(1, memory=8192), BoxQuota(memory_mib=4096))


def test_people_are_told_apart_by_name_where_the_journal_shows_all_of_them(journal):
    quota, by_name = BoxQuota(boxes=1), Claims(journal, by_name=True)
    by_name.take(claim(1), quota)
    by_name.take(claim(2, user="bob"), quota)
    assert [held.id for held in by_name.held("bob")] == ["c-2"]
    with pytest.raises(QuotaReached):
        Claims(journal).take(claim(3, user="eve"), quota)


async def test_a_process_elsewhere_counts_as_long_as_it_renews(where):
    clock = FakeClock(SampleRun().at)
    journal = Journal.open(where, clock=clock)
    try:
        claims, quota = Claims(journal), BoxQuota(boxes=1)
        claims.take(claim(1, owner="another-host-00000000:1:2.3.4"), quota)
        await clock.advance((LAPSE - timedelta(seconds=1)).total_seconds())
        claims.renew(["c-1"])
        await clock.advance((LAPSE - timedelta(seconds=1)).total_seconds())
        with pytest.raises(QuotaReached):
            claims.take(claim(2), quota)
        await clock.advance(2)
        claims.take(claim(2), quota)
        # One that slept and comes back has its box all the same.
        claims.renew(["c-1"])
        assert [held.id for held in claims.held("ada")] == ["c-1", "c-2"]
        await clock.advance((LAPSE + FORGET + timedelta(seconds=1)).total_seconds())
        claims.take(claim(3), quota)
        assert [row.id for row in journal.read(schema.claims.select())] == ["c-3"]
    finally:
        journal.close()


def test_what_a_lost_run_elsewhere_had_is_free_at_once(journal):
    claims, run = Claims(journal), SampleRun("run-1")
    journal.append(run.started(owner="another-host-00000000:1:2.3.4"))
    claims.take(claim(1, owner="another-host-00000000:1:2.3.4"), BoxQuota(boxes=1))
    lose(journal, "run-1", "its worker is gone")
    assert claims.held("ada") == []
