"""Agents for clouds that come ready: added with one command, at work in a box with a lease of a loopback service."""

import asyncio
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.events import AnyEvent, LeaseChanged, LeaseUsed, ToolFinished
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.settings import Settings
from kagura_kernel.membrane.credentials.registry import parse_registry
from kagura_kernel.membrane.credentials.secret import SecretReader
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply
from tests.support.credential_cloudflare import PARENT, FakeCloudflare
from tests.support.credential_rigs import TARGET, FakeGoogle, service_account
from tests.support.redactors import shared_redactor

pytestmark = pytest.mark.timeout(120)

ZONE = "0123456789abcdef0123456789abcdef"


class Dns(FakeCloudflare):
    """Cloudflare with zones and records, for whoever shows a token that works."""

    def respond(self, call: Call) -> Reply:
        """The answer to one request."""
        if not call.path.startswith("/zones"):
            return super().respond(call)
        if call.method != "GET" or call.bearer not in self.live():
            return Reply(403, {"success": False, "result": None})
        page = int(call.query["page"])
        rows: list[dict[str, object]] = [{"id": ZONE, "name": "example.org", "status": "active", "secret": "x"}]
        if call.path == f"/zones/{ZONE}/dns_records":
            rows = [{"id": str(page), "type": call.query["type"], "name": f"n{page}.example.org", "content": "::1"}]
        return Reply(
            200, {"success": True, "result": rows, "result_info": {"total_pages": 2 if "dns" in call.path else 1}}
        )


def run(
    folder: Path, name: str, providers: str, environ: dict[str, str], *asks: Ask
) -> tuple[RunOutcome, list[AnyEvent], FakeBrain]:
    """One run of a ready agent, with these providers and what it does."""
    project = folder / "project"
    project.mkdir()
    grants = {"aws": "aws:read", "gcp": "gcp:read", "cloudflare": "cloudflare:dns-read"}
    brain = FakeBrain([*asks, "Done."])
    cockpit = fake_cockpit(
        folder / "home",
        backend=BubblewrapBackend(),
        brains=[brain],
        redactor=shared_redactor(),
        registry=parse_registry(providers, SecretReader(environ)),
        settings=Settings(preapproved_grants=(grants[name],)),
    )
    try:
        added = cockpit.kits.add(name)
        assert added.definition.grants.credentials == (grants[name],)
        with pytest.raises(UsageError, match="left as it is"):
            cockpit.kits.add(name)
        handle = cockpit.launch(RunRequest(task="Go.", project=project, agent=name, headless=True))
        outcome = asyncio.run(asyncio.wait_for(handle.wait(), 90))
        return outcome, [row.event for row in cockpit.journal.events(run_id=outcome.run_id)], brain
    finally:
        cockpit.close()


def said(events: list[AnyEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, ToolFinished)]


def test_dns_is_read_at_cloudflare_and_the_token_is_never_in_the_box(tmp_path):
    with Dns() as service:
        providers = f"""
            [providers.cloudflare]
            kind = "cloudflare"
            token_env = "PARENT"
            api_url = "{service.url}"
            [providers.cloudflare.scopes.dns-read]
            permission_groups = ["zone-read", "dns-read"]
            resources = {{ "com.cloudflare.api.account.zone.*" = "*" }}
        """
        outcome, events, brain = run(
            tmp_path,
            "cloudflare",
            providers,
            {"PARENT": PARENT},
            Ask("dns_zones", {}),
            Ask("dns_records", {"zone": ZONE, "type": "AAAA"}),
            Ask("dns_records", {"zone": "../user/tokens"}),
            Ask("bash", {"command": "env; curl -sS -m 5 https://api.cloudflare.com/ 2>&1"}),
        )
        assert outcome.status == "done", outcome.error
        tools = {one.name: one.read_only for one in brain.turns[0].tools if one.name.startswith("dns")}
        assert tools == {"dns_zones": True, "dns_records": True}
        zones, records, odd, shell = said(events)
        assert ZONE in zones
        assert "example.org" in zones
        assert "secret" not in zones
        assert records.count("AAAA") == 2
        assert "n2.example.org" in records
        assert "needs the id of a zone" in odd
        assert "CLOUDFLARE_API_TOKEN=added-by-the-membrane" in shell
        assert "CONNECT tunnel failed, response 403" in shell
        used = [one for one in events if isinstance(one, LeaseUsed)]
        assert {one.method for one in used} == {"GET"}
        # Given back with the run.
        assert service.live() == {}


AWS = """
[providers.aws]
kind = "aws_sts"
access_key_id_env = "ID"
secret_access_key_env = "SECRET"
region = "eu-west-1"
endpoint_url = "{url}"
[providers.aws.scopes.read]
role_arn = "arn:aws:iam::123456789012:role/reader"
"""
GCP = f"""
[providers.gcp]
kind = "gcp"
key_env = "KEY"
api_url = "{{url}}"
[providers.gcp.scopes.read]
service_account = "{TARGET}"
oauth_scopes = ["https://www.googleapis.com/auth/cloud-platform.read-only"]
"""


def aws() -> tuple[LoopbackService, Callable[[str], dict[str, str]], str, str]:
    pytest.importorskip("moto")
    from tests.support.credential_aws import ACCESS_KEY_ID, SECRET_ACCESS_KEY, FakeAws

    keys = {"ID": ACCESS_KEY_ID, "SECRET": SECRET_ACCESS_KEY}
    return FakeAws(), lambda _url: keys, AWS, "AWS_SESSION_TOKEN"


def gcp() -> tuple[LoopbackService, Callable[[str], dict[str, str]], str, str]:
    return FakeGoogle(), lambda url: {"KEY": service_account(f"{url}/token")}, GCP, "GOOGLE_OAUTH_ACCESS_TOKEN"


@pytest.mark.parametrize("cloud", [aws, gcp])
def test_a_command_has_the_lease_of_a_cloud_where_it_names_it_and_no_other_command_has(tmp_path, cloud):
    service, environ, providers, variable = cloud()
    name = cloud.__name__
    count = f'echo "length ${{#{variable}}}"'
    with service:
        outcome, events, brain = run(
            tmp_path,
            name,
            providers.format(url=service.url),
            environ(service.url),
            Ask("bash", {"command": count}),
            Ask("bash", {"command": f'{count}; echo "${variable}"', "leases": [f"{name}:read"]}),
        )
        live = service.live()
    assert outcome.status == "done", outcome.error
    without, with_it = said(events)
    assert without == "length 0"
    assert int(with_it.split()[1]) > 20
    # One lease, minted by the service; what it opens is hidden where the box prints it.
    assert len(live) == 1
    assert not any(token in str(events) for token in live if name == "gcp")
    assert "(hidden)" in with_it
    [changed] = {one.lease_id for one in events if isinstance(one, LeaseChanged)}
    assert changed
    assert f"{name}:read" in brain.turns[0].system


@pytest.mark.parametrize("name", ["aws", "cloudflare", "gcp"])
def test_what_a_ready_agent_says_of_credentials_toml_is_right(tmp_path, name):
    cockpit = fake_cockpit(tmp_path / "home", backend=BubblewrapBackend(), redactor=shared_redactor())
    try:
        added = cockpit.kits.add(name)
    finally:
        cockpit.close()
    toml = "\n".join(line for line in added.notes if line.startswith("  "))
    assert tomllib.loads(toml)["providers"].keys() == {name}
    registry = parse_registry(toml, SecretReader({}))
    [grant] = added.definition.grants.credentials
    assert grant.startswith(f"{next(iter(registry.providers))}:")
