import configparser
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import (
    BoxFileError,
    GrantMissing,
    InjectionFailed,
    LeaseEnded,
    NotThisTime,
    UnknownName,
)
from kagura_kernel.membrane.credentials.injection import settings
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection, FileInjection, HeaderInjection
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest
from kagura_kernel.membrane.credentials.secret import Credential, Secret
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.credential_fake import FakeProvider
from tests.support.injection_rig import HOUR, InjectionRig
from tests.support.upstream import RawUpstream

RAW = FileInjection(way="file", variables={"TOKEN_FILE": "{path}"})
ENV = EnvInjection(way="env", variables={"TOKEN": "{token}", "REGION": "north"})


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    backend = FakeBackend()
    yield await backend.start(BoxSpec())
    await backend.close()


async def home_of(box: Box) -> str:
    return (await box.run(shell_command('printf %s "$HOME"'))).stdout.text


async def rig_in(box: Box, tmp_path: Path, *injections: Any, **more: Any) -> InjectionRig:
    return InjectionRig(tmp_path, *injections, box=box, home=await home_of(box), **more)


async def test_a_file_is_for_the_boxs_user_alone_and_a_variable_leads_to_it(box, tmp_path):
    async with await rig_in(box, tmp_path, RAW) as rig:
        await rig.open()
        variables = rig.injector.variables()
        assert variables == {
            "TOKEN_FILE": f"{await home_of(box)}/.kagura/leases/fake-read",
            "KAGURA_FAKE_READ_FILE": variables["TOKEN_FILE"],
        }
        line = 'cat "$TOKEN_FILE"; stat -c "%a" "$TOKEN_FILE" "$(dirname "$TOKEN_FILE")"'
        result = await box.run(shell_command(line, env=variables))
        assert result.stdout.text == "secret-of-handle-1600\n700\n"


async def test_a_file_follows_its_lease_through_renewal_hold_and_end(box, tmp_path):
    async with await rig_in(box, tmp_path, RAW) as rig:
        lease = await rig.open()
        path = rig.injector.variables()["TOKEN_FILE"]
        await rig.renew(lease)
        assert await box.files.read(path) == b"secret-of-handle-2"
        await rig.injector.on_hold(lease)
        with pytest.raises(BoxFileError, match="ENOENT"):
            await box.files.read(path)
        await rig.renew(lease)
        assert await box.files.read(path) == b"secret-of-handle-3"
        await rig.injector.closed(lease)
        with pytest.raises(BoxFileError, match="ENOENT"):
            await box.files.read(path)
        assert rig.injector.variables() == {}
        assert rig.injector.shown() == ()


async def test_a_file_that_cannot_be_written_leaves_no_secret_and_says_so(box, tmp_path):
    async with await rig_in(box, tmp_path, RAW) as rig:
        await box.run(shell_command('mkdir -p "$HOME/.kagura/leases/fake-read/in-the-way"'))
        lease = await rig.broker.acquire("fake", "read", budget=HOUR)
        with pytest.raises(InjectionFailed, match="fake:read cannot be used in the box") as caught:
            await rig.injector.open(lease)
        assert "secret-of" not in str(caught.value)
        assert rig.injector.variables() == {}


@pytest.mark.parametrize("linked", [".kagura", ".kagura/leases", ".kagura/leases/fake-read"])
async def test_a_file_does_not_follow_links_that_a_program_has_laid(box, tmp_path, linked):
    async with await rig_in(box, tmp_path, RAW) as rig:
        lease = await rig.open()
        lay = f'mkdir -p elsewhere/leases && rm -rf "$HOME/{linked}" && ln -s "$PWD/elsewhere" "$HOME/{linked}"'
        assert (await box.run(shell_command(lay))).ok
        with pytest.raises(InjectionFailed, match="has made a link"):
            await rig.renew(lease)
        found = await box.run(shell_command("find elsewhere -type f"))
        assert (found.exit_code, found.stdout.text) == (0, "")


async def test_a_renewal_that_is_refused_takes_the_old_file_away(box, tmp_path):
    async with await rig_in(box, tmp_path, RAW) as rig:
        lease = await rig.open()
        path = rig.injector.variables()["TOKEN_FILE"]
        rig.broker.grants = ()
        with pytest.raises(GrantMissing):
            await rig.injector.renewed(lease)
        with pytest.raises(BoxFileError, match="ENOENT"):
            await box.files.read(path)


class AwsLike(FakeProvider):
    async def mint(self, request: MintRequest) -> Minted:
        minted = await super().mint(request)
        names = ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN")
        parts = {name: Secret(f"{minted.credential.main.reveal()}/{name[-3:]}+%") for name in names}
        return Minted(Credential(parts), minted.lives, minted.handle)


async def test_aws_programs_find_a_credentials_file_and_one_command_its_variables(box, tmp_path):
    file = FileInjection(way="file", format="aws", variables={"AWS_SHARED_CREDENTIALS_FILE": "{path}"})
    provider = AwsLike(scopes=frozenset({"read"}))
    async with await rig_in(box, tmp_path, file, *settings.aws_keys("eu-west-1"), provider=provider) as rig:
        lease = await rig.open()
        path = rig.injector.variables()["AWS_SHARED_CREDENTIALS_FILE"]
        parser = configparser.RawConfigParser()
        parser.read_string((await box.files.read(path)).decode())
        expected = {
            "aws_access_key_id": "secret-of-handle-1/_ID+%",
            "aws_secret_access_key": "secret-of-handle-1/KEY+%",
            "aws_session_token": "secret-of-handle-1/KEN+%",
        }
        assert dict(parser["default"]) == expected
        env = rig.injector.secret_env(["fake:read"])
        assert env == rig.injector.secret_env([lease.id])
        assert env["AWS_REGION"] == env["AWS_DEFAULT_REGION"] == "eu-west-1"
        assert {name.upper(): value for name, value in expected.items()}.items() <= env.items()


@pytest.mark.parametrize(
    ("injection", "text"),
    [
        (
            FileInjection(way="file", format="netrc", host="api.example", login="me"),
            "machine api.example login me password secret-of-handle-1\n",
        ),
        (FileInjection(way="file", format="template", template="[x]\nkey={token}\n"), "[x]\nkey=secret-of-handle-1\n"),
    ],
)
async def test_a_file_has_the_form_that_its_program_reads(box, tmp_path, injection, text):
    named = injection.model_copy(update={"name": "credentials"})
    async with await rig_in(box, tmp_path, named) as rig:
        await rig.open()
        assert await box.files.read(f"{await home_of(box)}/.kagura/leases/credentials") == text.encode()


async def test_a_token_of_google_cloud_comes_with_its_end(box, tmp_path):
    async with await rig_in(box, tmp_path, FileInjection(way="file", format="gcp")) as rig:
        lease = await rig.open()
        value = json.loads(await box.files.read(rig.injector.variables()["KAGURA_FAKE_READ_FILE"]))
        ends = (lease.issued_at + timedelta(seconds=900)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert value == {"access_token": "secret-of-handle-1", "token_type": "Bearer", "expiry": ends}


async def test_variables_with_a_secret_are_given_to_one_command_and_seen_by_no_other(box, tmp_path):
    async with await rig_in(box, tmp_path, ENV) as rig:
        await rig.open()
        assert rig.injector.variables() == {}
        given = await box.run(shell_command("printf %s,%s $TOKEN $REGION", env=rig.injector.secret_env(["fake:read"])))
        assert given.stdout.text == "secret-of-handle-1,north"
        # A box without walls sees the machine's other processes, which may look for such a secret themselves.
        look = "env; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
        assert given.stdout.text.partition(",")[0] not in (await box.run(Command(("bash", "-c", look)))).stdout.text
        assert "secret-of" not in repr(rig.injector.shown())


async def test_variables_are_asked_for_by_name_and_only_where_they_are_meant(box, tmp_path):
    async with await rig_in(box, tmp_path, RAW) as rig:
        await rig.open()
        with pytest.raises(NotThisTime, match=r"fake:read is not used by variables\. Use /"):
            rig.injector.secret_env(["fake:read"])
        with pytest.raises(UnknownName, match=r"no lease 'fake:raed'\. Did you mean 'fake:read'"):
            rig.injector.secret_env(["fake:raed"])


async def test_a_lease_that_is_over_is_not_put_into_a_box(box, tmp_path):
    async with await rig_in(box, tmp_path, RAW) as rig:
        lease = await rig.broker.acquire("fake", "read", budget=HOUR)
        await rig.broker.release(lease.id)
        with pytest.raises(LeaseEnded):
            await rig.injector.open(lease)
        assert rig.injector.shown() == ()


async def test_ended_leases_give_no_variables(box, tmp_path):
    async with await rig_in(box, tmp_path, ENV) as rig:
        lease = await rig.open()
        await rig.broker.release(lease.id)
        with pytest.raises(LeaseEnded):
            rig.injector.secret_env([lease.id])


async def test_a_provider_that_says_nothing_about_its_use_is_told_what_is_missing(box, tmp_path):
    async with await rig_in(box, tmp_path) as rig:
        with pytest.raises(InjectionFailed, match="add `inject` to the provider"):
            await rig.open()


async def test_two_leases_share_programs_names_and_keep_their_own(box, tmp_path):
    async with RawUpstream() as upstream:
        variables = {"API_URL": "{url}", "API_KEY": "none"}
        way = HeaderInjection(upstream=upstream.url, variables=variables, git=("https://git.example/",))
        async with await rig_in(box, tmp_path, way) as rig:
            await rig.open("read")
            await rig.open("write")
            first, second = rig.urls
            found = rig.injector.variables()
            assert found["API_URL"] == found["KAGURA_FAKE_READ_URL"] == first
            assert found["KAGURA_FAKE_WRITE_URL"] == second != first
            moved = {
                found[f"GIT_CONFIG_KEY_{n}"]: found[f"GIT_CONFIG_VALUE_{n}"]
                for n in range(int(found["GIT_CONFIG_COUNT"]))
            }
            assert moved[f"url.{first}/.insteadOf"] == "https://git.example/"
            assert f"url.{second}/.insteadOf" not in moved


async def test_a_program_in_the_box_reaches_the_upstream_through_the_guest(box, tmp_path):
    async with RawUpstream() as upstream:
        way = HeaderInjection(upstream=upstream.url, variables={"API_URL": "{url}"})
        async with await rig_in(box, tmp_path, way) as rig:
            await rig.open()
            result = await box.run(shell_command("curl -sS $API_URL/x", env=rig.injector.variables()))
            assert (result.stdout.text, result.stderr.text) == ("ok", "")
            assert upstream.asked[0].header("authorization") == "Bearer secret-of-handle-1"


async def test_closing_is_final_and_may_be_done_twice_even_when_the_box_is_gone(box, tmp_path):
    async with await rig_in(box, tmp_path, RAW, ENV) as rig:
        lease = await rig.open()
        await box.close()
        await rig.injector.close()
        await rig.injector.close()
        with pytest.raises(InjectionFailed, match="the run is over"):
            await rig.injector.open(lease)
