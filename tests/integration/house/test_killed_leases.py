"""Kill -9 at 50 moments, or 18, of the life of leases in real runs: the next start leaves nothing that no run owns."""

import os
import queue
import random
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.credential_service import Call, Reply
from kagura_kernel.testing.false_home import share_rules
from kagura_kernel.testing.patience import wait_until
from tests.support.credential_cloudflare import PARENT, FakeCloudflare
from tests.support.credential_life import Lives
from tests.support.effort import EVERYTHING

pytestmark = [pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(600)]

# With 18 every kind meets every phase twice.
MOMENTS = 50 if EVERYTHING else 18
AT_ONCE = 8
MARK = "kagura-killed-lease-86751"
# One credential lives a second, so that it is renewed while the cell goes on.
CELL = f"""
(exec -a {MARK} sleep 100000) &
for i in 1 2 3 4 5 6 7; do curl --silent --output /dev/null "$API/$i"; sleep 0.15; done
"""
CONFIG = """
box = "bubblewrap"
pool_size = 0
lease_seconds = 1.0
lease_budget_seconds = 60.0
lease_renewals = 100
preapproved_grants = [{grants}]
"""
PROVIDER = """
[providers.{name}]
kind = "cloudflare"
token_file = "{key}"
api_url = "{url}/{name}"
inject = {{ upstream = "{url}/{name}/use", variables = {{ API = "{{url}}" }} }}

[providers.{name}.scopes.read]
permission_groups = ["dns-read"]
resources = {{ "com.cloudflare.api.account.zone.1" = "*" }}
"""

Kind = Literal["mint", "use", "revoke"]
Phase = Literal["asked", "done", "later"]


@dataclass
class Life:
    """One process, and when it is killed.

    As the service is asked for this for the nth time, or when it has done that and not answered, or somewhat later.
    """

    name: str
    kind: Kind
    nth: int
    phase: Phase
    later: float
    pid: int = 0
    begun: threading.Event = field(default_factory=threading.Event)
    seen: int = 0
    over: bool = False


class Books(FakeCloudflare):
    """The provider of all lives, each below a path of its own, and what its tokens open; it kills when it is time."""

    def __init__(self, lives: dict[str, Life]) -> None:
        super().__init__()
        self.lives = lives
        self.killed: queue.Queue[Life] = queue.Queue()
        self.used = 0
        self.refused: list[str] = []

    @property
    def books(self) -> list[str]:
        """Names of all tokens that were not deleted, whatever their age."""
        with self.lock:
            return [token.name for token in self._tokens.values()]

    def respond(self, call: Call) -> Reply:
        _, name, rest = call.path.split("/", 2)
        life = self.lives[name]
        kind: Kind | None = {"POST": "mint", "DELETE": "revoke"}.get(call.method)  # type: ignore[assignment]
        if rest.startswith("use/"):
            kind = "use"
        struck = False
        if kind == life.kind and not life.over:
            life.seen += 1
            struck = life.seen == life.nth
        if struck and life.phase == "asked":
            self.kill(life)
        if kind == "use":
            self.used += 1
            known = call.bearer in self.live()
            if not known and not life.over:
                self.refused.append(name)
            reply = Reply(200 if known else 401, b"")
        else:
            reply = super().respond(Call(call.method, f"/{rest}", call.query, call.headers, call.body))
        if struck and life.phase == "done":
            self.kill(life)
        if struck and life.phase == "later":
            threading.Timer(life.later, self.kill, (life,)).start()
        return reply

    def kill(self, life: Life) -> None:
        assert life.begun.wait(60)
        life.over = True
        os.kill(life.pid, signal.SIGKILL)
        self.killed.put(life)


def drawn(chance: random.Random) -> dict[str, Life]:
    """Which moments: every kind and phase alike often, the rest by chance."""
    kinds: list[Kind] = ["mint", "use", "revoke"]
    phases: list[Phase] = ["asked", "done", "later"]
    found = {}
    for number in range(MOMENTS):
        kind, phase = kinds[number % 3], phases[number // 3 % 3]
        nth = chance.randint(1, {"mint": 2, "use": 6, "revoke": 2}[kind])
        found[f"life-{number:02}"] = Life(f"life-{number:02}", kind, nth, phase, chance.uniform(0.0, 0.4))
    return found


def configured(folder: Path, url: str, names: list[str]) -> dict[str, str]:
    """The environment of every start."""
    folder.mkdir()
    key = folder / "parent.key"
    key.write_text(PARENT)
    key.chmod(0o600)
    grants = ", ".join(f'"{name}:read"' for name in names)
    (folder / "config.toml").write_text(CONFIG.format(grants=grants))
    providers = "".join(PROVIDER.format(name=name, key=key, url=url) for name in names)
    (folder / "credentials.toml").write_text(providers)
    share_rules(folder / "home")
    return {
        **os.environ,
        "KAGURA_CONFIG": str(folder / "config.toml"),
        "KAGURA_HOME": str(folder / "home"),
        "DOCKER_HOST": f"unix://{folder}/nobody.sock",
    }


def test_after_a_kill_at_any_moment_the_next_start_gives_back_what_no_run_owns(tmp_path, project):
    lives = drawn(random.Random(1968))
    states: set[str] = set()
    waiting = list(lives.values())
    with Books(lives) as service, Lives("tests.support.run_life") as processes:
        environ = configured(tmp_path / "mine", service.url, list(lives))
        journal = Journal.open(tmp_path / "mine" / "home")
        ledger = LeaseLedger(journal)

        def start() -> None:
            life = waiting.pop(0)
            order = {"environ": environ, "project": str(project), "grant": f"{life.name}:read", "code": CELL}
            life.pid = processes.start(**order)
            life.begun.set()

        for _ in range(AT_ONCE):
            start()
        for _ in range(MOMENTS):
            life = service.killed.get(timeout=120)
            states |= {row.state for row in ledger.open_rows() if row.provider == life.name}
            processes.kill(life.pid)
            if waiting:
                start()
        service.wait_idle()
        assert service.refused == [], "a living run's credential did not open what it should"
        assert service.used > MOMENTS
        assert {"minting", "live", "owed"} <= states, "no kill hit the moments that matter"
        assert service.books, "nothing was left behind, so nothing is shown"
        last = {row.id for row in ledger.open_rows()}

        cockpit = make_cockpit(environ)
        try:
            wait_until(lambda: service.books == [], 120)
            on_the_way = "its mint may still be on the way"
            wait_until(lambda: {row.why for row in ledger.open_rows()} <= {on_the_way})
            report = cockpit.status()
            runs = cockpit.runs(limit=1000)
        finally:
            cockpit.close()

        # It says what it did, and what it did is written down.
        assert {one.lease_id for one in (*report.swept, *report.owed)} == last
        assert {one.how for one in report.swept} <= {"revoked", "forgotten", "never minted"}
        rows = ledger.rows(limit=10_000)
        assert {row.provider for row in rows} == set(lives)
        assert {row.id for row in rows if row.state != "gone"} == {one.lease_id for one in report.owed}
        assert all(row.handle == "" for row in rows if row.state == "gone")
        # Every run that was under way is lost, and none is taken for one that goes on.
        assert {row.status for row in runs} <= {"done", "lost"}
        lost = [row for row in runs if row.status == "lost"]
        assert len(lost) >= sum(life.phase != "later" for life in lives.values())
        assert {row.error_code for row in lost} == {"ERR_RUN_LOST"}
        wait_until(lambda: processes_with(MARK) == [])
        journal.close()
