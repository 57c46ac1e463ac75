"""What every credential provider promises, as a suite: subclass `ProviderConformance`, give it the fixture `rig`.

::

    class TestMyProvider(ProviderConformance):
        @pytest.fixture
        def rig(self):
            with my_rig() as rig:
                yield rig

It is a `credential_service.ProviderRig`: the provider, and a fake of its service made of `LoopbackService`.
"""

# ruff: noqa: D102, S101 - a test's name is its sentence, and a suite asserts; pytest runs it, never python -O
from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.domain.errors import LeaseRefused, LeaseUnavailable, SecretUnavailable
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, Verdict
from kagura_kernel.membrane.credentials.secret import SecretReader
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.credential_service import RETRY_AFTER, SCOPE, ProviderRig, Trouble

_ASKED = 900.0


def ask(mark: str = "lea-0000000000test") -> MintRequest:
    """A quarter of an hour of the rig's scope."""
    return MintRequest(mark, SCOPE, _ASKED)


def values(minted: Minted) -> list[str]:
    """The secrets of a credential."""
    return [secret.reveal() for secret in minted.credential]


class ProviderConformance:
    """Mint, renew, revoke, find, and everything that goes wrong."""

    async def test_a_minted_credential_is_in_the_books_of_its_provider(self, rig: ProviderRig) -> None:
        minted = await rig.provider().mint(ask())
        assert minted.credential.part(rig.shown).reveal() in rig.live()

    async def test_a_minted_credential_shows_no_secret(self, rig: ProviderRig) -> None:
        minted = await rig.provider().mint(ask())
        for secret in values(minted):
            assert secret not in repr(minted) + str(minted.credential) + minted.handle
        with pytest.raises(TypeError, match="never pickled"):
            pickle.dumps(minted)

    async def test_renewing_gives_another_credential_and_leaves_the_first_alone(self, rig: ProviderRig) -> None:
        provider = rig.provider()
        one, two = await provider.mint(ask("lea-1")), await provider.mint(ask("lea-2"))
        assert set(values(one)).isdisjoint(values(two))
        assert {one.credential.part(rig.shown).reveal(), two.credential.part(rig.shown).reveal()} <= set(rig.live())

    async def test_revoking_ends_exactly_that_credential(self, rig: ProviderRig) -> None:
        provider = rig.provider()
        one, two = await provider.mint(ask("lea-1")), await provider.mint(ask("lea-2"))
        answer = await provider.revoke(one.handle)
        if not provider.traits.revocable:
            assert answer.verdict is Verdict.GONE
            assert provider.traits.note
            return
        assert answer.verdict is Verdict.REVOKED
        assert set(rig.live()) == {two.credential.part(rig.shown).reveal()}

    async def test_revoking_is_tried_again_unless_the_provider_does_not_know_the_credential(
        self, rig: ProviderRig
    ) -> None:
        provider = rig.provider()
        if not provider.traits.revocable:
            pytest.skip("nothing is revoked there")
        minted = await provider.mint(ask())
        rig.service.trouble(Trouble.BUSY, Trouble.BROKEN, Trouble.NOT_FOUND)
        busy, broken, unknown = [await provider.revoke(minted.handle) for _ in range(3)]
        assert (busy.verdict, busy.retry_after) == (Verdict.RETRY, RETRY_AFTER)
        assert broken.verdict is Verdict.RETRY
        assert unknown.verdict is Verdict.GONE
        rig.service.trouble(Trouble.STALLED)
        with pytest.raises(LeaseUnavailable):
            await rig.provider(timeout=1.5).revoke(minted.handle)
        assert (await provider.revoke(minted.handle)).verdict is Verdict.REVOKED

    async def test_a_provider_that_is_asked_too_often_says_when_to_come_back(self, rig: ProviderRig) -> None:
        rig.service.trouble(Trouble.BUSY)
        with pytest.raises(LeaseUnavailable) as caught:
            await rig.provider().mint(ask())
        assert not caught.value.uncertain
        assert caught.value.retry_after in (RETRY_AFTER, None)
        assert rig.live() == {}

    async def test_a_provider_that_does_not_answer_is_given_up(self, rig: ProviderRig) -> None:
        rig.service.trouble(Trouble.STALLED)
        with pytest.raises(LeaseUnavailable) as caught:
            await rig.provider(timeout=1.5).mint(ask())
        assert caught.value.uncertain

    @pytest.mark.parametrize("trouble", [Trouble.GARBLED, Trouble.LOST])
    async def test_after_an_answer_that_is_lost_or_malformed_the_credential_can_be_found(
        self, rig: ProviderRig, trouble: Trouble
    ) -> None:
        provider = rig.provider()
        rig.service.trouble(trouble)
        with pytest.raises(LeaseUnavailable) as caught:
            await provider.mint(ask("lea-lost"))
        assert caught.value.uncertain
        for secret in rig.live():
            assert secret not in str(caught.value)
            assert secret not in str(caught.value.__cause__)
        if not provider.traits.findable:
            assert await provider.find("lea-lost") == ""
            return
        assert await provider.find("lea-other") == ""
        assert (await provider.revoke(await provider.find("lea-lost"))).verdict is Verdict.REVOKED
        assert await provider.find("lea-lost") == ""
        assert rig.live() == {}

    async def test_a_wrong_key_is_refused_and_never_repeated(self, rig: ProviderRig) -> None:
        with pytest.raises(LeaseRefused) as caught:
            await rig.provider(wrong_key=True).mint(ask())
        told = str(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__context__)
        for key in rig.wrong.values():
            assert key not in told
        assert rig.live() == {}

    async def test_a_missing_key_is_told_without_its_place(self, rig: ProviderRig) -> None:
        provider = rig.make(SecretReader({}), FakeClock(), 1.0)
        with pytest.raises(SecretUnavailable) as caught:
            await provider.mint(ask())
        assert "providers.test.key_env" in str(caught.value)
        assert not set(rig.secrets) & set(str(caught.value).split())

    @pytest.mark.parametrize("minutes", [-120, -10, 10, 120])
    async def test_a_clock_that_is_wrong_does_no_harm(self, rig: ProviderRig, minutes: int) -> None:
        clock = FakeClock(datetime.now(UTC) + timedelta(minutes=minutes))
        minted = await rig.provider(clock=clock).mint(ask())
        assert minted.credential.part(rig.shown).reveal() in rig.live()
        traits = rig.provider().traits
        assert 0 < minted.lives <= max(_ASKED, traits.shortest) + abs(minutes) * 60 + 60

    async def test_a_provider_that_cannot_be_reached_is_told_as_such(self, rig: ProviderRig) -> None:
        provider = rig.provider()
        rig.service.__exit__(None, None, None)
        with pytest.raises(LeaseUnavailable):
            await provider.mint(ask())
