"""What one person's runs may have together: boxes at once, and money in a day."""

from dataclasses import replace

import pytest

from kagura_kernel.cockpit.message_brain import Message
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import QuotaReached, SandboxUnavailable
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal import views
from kagura_kernel.journal.claims import RENEW_SECONDS, Claims
from kagura_kernel.journal.schema import claims
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing import brain
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until
from tests.support.sample_run import SampleRun

ONE_BOX = Settings(quota_boxes=1)


def held(cockpit):
    return [one.run_id for one in Claims(cockpit.journal).held("")]


def cell(project, code="print(1)", **options):
    return RunRequest(code, project=project, **{"language": "python", **options})


def test_a_box_is_free_as_soon_as_its_run_has_ended(cockpit_with, project):
    cockpit = cockpit_with(settings=ONE_BOX)
    for _ in range(3):
        outcome = cockpit.launch(cell(project)).result(60)
        assert (outcome.status, outcome.error) == ("done", "")
        assert held(cockpit) == []


def test_one_box_too_many_is_refused_with_who_has_the_others(cockpit_with, project, backend):
    cockpit = cockpit_with([Hang()], settings=ONE_BOX)
    first = cockpit.launch(RunRequest("wait", project=project, session="one"))
    wait_until(lambda: backend.boxes)
    assert held(cockpit) == [first.run_id]
    outcome = cockpit.launch(cell(project, session="two")).result(60)
    assert (outcome.status, outcome.error_code) == ("failed", "ERR_QUOTA")
    assert f"1 is taken by {first.run_id}" in outcome.error
    assert len(backend.boxes) == 1
    [told] = [part for part in cockpit.status().others if part.name == "quota of boxes"]
    assert (told.ok, told.reason) == (False, "1 of 1 boxes")
    first.kill("the test")
    first.result(60)
    assert cockpit.launch(cell(project, session="two")).result(60).status == "done"


def test_a_box_that_was_kept_counts_until_it_is_ended(cockpit_with, project):
    cockpit = cockpit_with(settings=ONE_BOX)
    first = cockpit.launch(cell(project, keep=True)).result(60)
    assert held(cockpit) == [first.run_id]
    # The next cell goes on in it, and another session has none.
    assert cockpit.launch(cell(project, keep=True)).result(60).status == "done"
    assert cockpit.launch(cell(project, session="other")).result(60).error_code == "ERR_QUOTA"
    cockpit.end_box()
    wait_until(lambda: not held(cockpit))
    assert cockpit.launch(cell(project, session="other")).result(60).status == "done"


def test_a_box_that_did_not_start_takes_nothing_and_one_that_is_closed_with_the_kernel_neither(tmp_path, project):
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(broken="it is broken"), settings=ONE_BOX)
    assert cockpit.launch(cell(project)).result(60).error_code == SandboxUnavailable.code
    assert held(cockpit) == []
    cockpit.close()
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), settings=ONE_BOX)
    assert cockpit.launch(cell(project, keep=True)).result(60).status == "done"
    cockpit.close()
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), settings=ONE_BOX)
    try:
        assert held(cockpit) == []
    finally:
        cockpit.close()


def test_a_verification_has_a_box_of_its_own_and_gives_it_back(cockpit_with, project):
    for boxes, passed in ((2, True), (1, False)):
        cockpit = cockpit_with(["Done."], settings=Settings(quota_boxes=boxes))
        outcome = cockpit.launch(RunRequest("do it", project=project, verify="true", session=f"s{boxes}")).result(60)
        assert (outcome.verified, held(cockpit)) == (passed, [])
        cockpit.close()


def test_a_run_without_walls_takes_no_box(cockpit_with, project):
    settings = Settings(quota_boxes=1, policy="external_sandbox")
    cockpit = cockpit_with([Ask("bash", {"command": "true"}), "Done."], settings=settings)
    handle = cockpit.launch(RunRequest("do it", project=project))
    assert (handle.result(60).status, held(cockpit)) == ("done", [])


def test_what_is_held_is_renewed(tmp_path, project):
    clock = FakeClock()
    cockpit = fake_cockpit(
        tmp_path / "home", backend=FakeBackend(), brains=[FakeBrain([Hang()])], settings=ONE_BOX, clock=clock
    )

    def until():
        [row] = cockpit.journal.read(claims.select())
        return row.until

    try:
        handle = cockpit.launch(RunRequest("wait", project=project))
        wait_until(lambda: held(cockpit) and clock.sleepers)
        before = until()
        wait_until(lambda: _moved(clock) and until() > before)
        handle.kill("the test")
        handle.result(60)
    finally:
        cockpit.close()


def _moved(clock):
    clock._elapsed += RENEW_SECONDS
    for sleeper in list(clock._sleepers):
        sleeper.wake()
    return True


# ------------------------------------------------------------------------------------------------------- a day's money


@pytest.fixture
def spending(tmp_path):
    """Cockpits with a cent for each turn, on one journal."""
    made = []

    def make(script, usd, **more):
        brain = script if isinstance(script, FakeBrain) else FakeBrain(script, usd_per_round=None)
        settings = Settings(quota_usd_per_day=usd, plan_above_usd=None)
        cockpit = fake_cockpit(
            tmp_path / "home",
            backend=FakeBackend(),
            brains=[brain],
            settings=settings,
            prices=lambda *_: (0.01, "the test's"),
            **more,
        )
        made.append(cockpit)
        return cockpit

    yield make
    for cockpit in made:
        cockpit.close()


LOOK = Ask("bash", {"command": "true"})


def test_a_day_that_is_spent_starts_nothing_that_costs(spending, project):
    cockpit = spending(["Done."], 0.02)
    runs = [cockpit.launch(RunRequest("do it", project=project)).result(60) for _ in range(2)]
    assert [one.status for one in runs] == ["done", "stopped"]
    with pytest.raises(QuotaReached) as caught:
        cockpit.launch(RunRequest("do it", project=project))
    assert "have spent $0.0200 today" in caught.value.message
    assert f"{runs[0].run_id} $0.0100" in caught.value.message
    with pytest.raises(QuotaReached):
        cockpit.classify(Message("what is this?"))
    assert cockpit.launch(cell(project)).result(60).status == "done"
    [told] = [part for part in cockpit.status().others if part.name == "quota of the day"]
    assert (told.ok, told.reason) == (False, "$0.02 of $0.02 until midnight UTC")


def test_a_run_that_goes_on_is_stopped_by_what_others_spend(spending, project):
    cockpit = spending([LOOK, LOOK, LOOK, LOOK, "Done."], 0.03)
    outcome = cockpit.launch(RunRequest("do it", project=project)).result(60)
    assert (outcome.status, outcome.error_code, round(outcome.cost.usd, 2)) == ("stopped", "ERR_QUOTA", 0.03)


def test_a_brain_is_told_what_is_left_of_the_day(spending, project):
    brain = FakeBrain(["Done."], usd_per_round=None)
    cockpit = spending(brain, 0.05)
    other = SampleRun("run-1", at=cockpit.journal.clock.now())
    for event in (other.started(), other.counted(computed_usd=0.02)):
        cockpit.journal.append(event)
    for budget, told in ((9.0, 0.03), (0.015, 0.015)):
        cockpit.launch(RunRequest("do it", project=project, budget_usd=budget)).result(60)
        assert brain.turns[-1].budget_usd == pytest.approx(told)


def test_what_began_yesterday_counts_only_while_it_goes_on(spending, project):
    clock = FakeClock()
    cockpit = spending(["Done."], 1.0, clock=clock)
    yesterday = SampleRun("run-1", at=clock.now().replace(day=1))
    clock._elapsed = 86400.0
    for event in (yesterday.started(), yesterday.counted(computed_usd=2.0)):
        cockpit.journal.append(event)
    # Nothing says yet whether it does, as of one whose machine is gone.
    assert cockpit.launch(RunRequest("do it", project=project)).result(60).status == "done"
    cockpit.journal.append(replace(yesterday, at=clock.now()).counted(computed_usd=0.0))
    with pytest.raises(QuotaReached):
        cockpit.launch(RunRequest("do it", project=project))
    cockpit.journal.append(yesterday.finished(computed_usd=2.0))
    assert cockpit.launch(RunRequest("do it", project=project)).result(60).status == "done"


def test_children_spend_of_the_same_day(spending, project):
    cockpit = spending([lambda _: Ask("delegate", {"task": "part"}), "Done."], 0.03)
    outcome = cockpit.launch(RunRequest("do it", project=project, net=("none",))).result(60)
    assert sum(row.usd or 0 for row in views.costs(cockpit.journal)) == pytest.approx(0.03)
    assert (outcome.error_code, len(views.costs(cockpit.journal)) > 1) == ("ERR_QUOTA", True)


def test_a_model_without_a_price_keeps_no_day(tmp_path, project):
    settings = Settings(quota_usd_per_day=1.0)
    brain, unknown = FakeBrain(["Done."]), (None, "")
    cockpit = fake_cockpit(
        tmp_path / "home", backend=FakeBackend(), brains=[brain], settings=settings, prices=lambda *_: unknown
    )
    try:
        outcome = cockpit.launch(RunRequest("do it", project=project)).result(60)
    finally:
        cockpit.close()
    assert (outcome.status, "no price is known" in outcome.error) == ("failed", True)


@pytest.mark.parametrize("tokens", [2**63, 10**400, -(10**30)])
def test_figures_that_no_journal_holds_end_no_run(cockpit_with, project, monkeypatch, tokens):
    monkeypatch.setattr(brain, "PER_ROUND", Usage(tokens, tokens))
    cockpit = cockpit_with(["Hi."])
    assert cockpit.launch(RunRequest("hello", project=project)).result(60).status == "done"
    assert views.costs(cockpit.journal)[0].input_tokens in (10**12, -(10**12))


@pytest.mark.parametrize("usd", [-5.0, float("nan"), float("inf"), 1e308])
def test_a_sum_that_no_run_can_have_cost_is_not_known(cockpit_with, project, usd):
    cockpit = cockpit_with(FakeBrain(["Hi."], usd_per_round=usd))
    assert cockpit.launch(RunRequest("hello", project=project)).result(60).cost.usd is None
