"""A run longer than its credentials, in a real kernel and a real box: nothing is asked until their budget ends."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.events import LeaseChanged
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.credential_service import Call, Reply
from kagura_kernel.testing.patience import wait_until
from tests.support.credential_cloudflare import PARENT, FakeCloudflare
from tests.support.plain_page import PlainPage

pytestmark = [pytest.mark.real_clock, pytest.mark.slow, pytest.mark.timeout(300)]

CONFIG = """
box = "bubblewrap"
pool_size = 0
preapproved_grants = ["cloud:read"]
lease_seconds = 5.0
lease_budget_seconds = 12.0
lease_renewals = 100
"""
PROVIDERS = """
[providers.cloud]
kind = "cloudflare"
token_file = "{key}"
api_url = "{url}"
inject = {{ upstream = "{url}/use", variables = {{ API = "{{url}}" }} }}

[providers.cloud.scopes.read]
permission_groups = ["dns-read"]
resources = {{ "com.cloudflare.api.account.zone.1" = "*" }}
"""
# Asks on and on, and says each change of what it hears; over when it was refused, or served again after that.
CELL = """%%sandbox bash --grant cloud:read --net none --timeout 0 --idle 0
last=none
while :; do
    code=$(curl --silent --output /tmp/answer --write-out '%{{http_code}}' "$API/again")
    [ "$code" = "$last" ] || echo "from $last to $code"
    [ "$code" = 200 ] || [ "$code" = "$last" ] || cat /tmp/answer
    {end}
    last=$code
    sleep 0.05
done
"""


class Cloud(FakeCloudflare):
    """A provider, and what its tokens open."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: dict[str, int] = {}  # How often each token did, in the order of their first use
        self.refused = 0  # How often something else was shown

    def respond(self, call: Call) -> Reply:
        if call.path != "/use/again":
            return super().respond(call)
        if call.bearer not in self.live():
            self.refused += 1
            return Reply(401, b"")
        self.opened[call.bearer] = self.opened.get(call.bearer, 0) + 1
        return Reply(200, b"yes")


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with Cloud() as cloud:
        yield cloud


@pytest.fixture
def variables(tmp_path: Path, cloud: Cloud) -> dict[str, str]:
    folder = tmp_path / "config"
    folder.mkdir()
    key = folder / "parent.key"
    key.write_text(PARENT)
    key.chmod(0o600)
    (folder / "config.toml").write_text(CONFIG)
    (folder / "credentials.toml").write_text(PROVIDERS.format(key=key, url=cloud.url))
    return {"KAGURA_CONFIG": str(folder / "config.toml")}


@pytest.fixture
def journal(private_home: Path) -> Iterator[Journal]:
    """The kernel's own, read from outside."""
    journal = Journal.open(private_home / "kagura")
    yield journal
    journal.close()


def changes(journal: Journal) -> list[str]:
    return [row.event.change for row in journal.events(kinds=("lease.changed",)) if isinstance(row.event, LeaseChanged)]


ANSWER = """
import sys
from pathlib import Path
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
journal = Journal.open(Path(sys.argv[1]))
Mailbox(journal).decide(sys.argv[2], Verdict.ALLOW, by="ann", via="terminal")
journal.close()
"""


def test_nothing_is_asked_until_the_budget_ends_and_after_a_yes_from_elsewhere_it_goes_on(
    kernel, journal, private_home, cloud
):
    code = CELL.format(end='[ "$last" = 503 ] && [ "$code" = 200 ] && break')
    request = kernel.send(code, person=True)
    mailbox = Mailbox(journal)
    wait_until(mailbox.pending, 120)
    (question,) = mailbox.pending()
    assert question.kind is ApprovalKind.CREDENTIAL
    assert question.title == "Hold cloud:read for up to 12 s more"
    # Several credentials have come by then, all were used, and nothing was refused or asked.
    assert changes(journal)[:2] == ["acquired", "renewed"]
    assert len(cloud.opened) >= 2
    assert cloud.refused == 0
    assert len(views.approvals(journal)) == 1
    # The question is seen in the cell, and while nobody answers the program is told in words.
    seen = kernel.follow(request, lambda message: "from 200 to 503" in str(message["content"]), 120)
    assert question.title in str(seen)
    assert "from none to 200" in str(seen)
    wait_until(lambda: "on hold" in changes(journal))
    subprocess.run([sys.executable, "-c", ANSWER, str(private_home / "kagura"), question.id], check=True)
    # The cell ends by itself: served again.
    text = str(seen + kernel.follow(request, seconds=120))
    assert "from 503 to 200" in text
    assert "is on hold: its budget is used up, and a person is being asked for more" in text
    assert "ERR_LEASE_ENDED" in text
    assert cloud.refused == 0
    wait_until(lambda: cloud.live() == {})
    (row,) = views.approvals(journal)
    assert (row.verdict, row.by) == ("allow", "ann")
    (run,) = views.runs(journal)
    assert run.status == "done"


def test_a_page_with_ipywidgets_alone_sees_its_time_go_down_and_takes_it_away(kernel, journal, cloud):
    page = PlainPage(kernel._client)
    kernel.send(CELL.format(end=":"), person=True)
    left: list[int] = []

    def went_down() -> bool:
        left.extend(state["value"] for _, state in page.found("IntProgress"))
        return any(later < earlier for earlier, later in itertools.pairwise(left))

    page.wait(went_down)
    assert "cloud:read" in page.text
    assert any(state["value"].endswith(" left") for _, state in page.found("Label"))
    page.press("Revoke now")
    page.wait(lambda: changes(journal)[-1] == "released")
    assert cloud.live() == {}
    page.press("Stop")
    page.wait(lambda: not page.models)


def test_where_nobody_can_be_asked_it_goes_on_until_the_budget_ends_and_is_then_told_so(kernel, journal, cloud):
    messages = kernel.follow(kernel.send(CELL.format(end='[ "$code" = 200 ] || break')), seconds=120)
    text = str(messages)
    assert "from none to 200" in text
    assert "from 200 to 503" in text
    assert "ERR_LEASE_ENDED" in text
    assert len(cloud.opened) >= 2
    assert cloud.refused == 0
    (row,) = views.approvals(journal)
    assert (row.verdict, row.by) == ("deny", "policy")
    assert "on hold" in changes(journal)
    assert changes(journal)[-1] == "released"
    assert cloud.live() == {}
