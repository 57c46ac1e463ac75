"""The fake of the Memory Cloud speaks as the service's own client expects, where that client is installed."""

import pytest

from kagura_kernel.membrane.credentials.provider import MintRequest, Verdict
from kagura_kernel.testing.credential_service import SCOPE
from tests.support.credential_rigs import MEMBER, OWNER_KEY, WORKSPACE, FakeMemoryCloud, memory_cloud_rig


@pytest.fixture
def oracle() -> type:
    return pytest.importorskip("kagura_memory.workspace_client").WorkspaceClient


async def test_the_services_own_client_mints_lists_and_revokes_on_the_fake(oracle: type) -> None:
    with FakeMemoryCloud() as service:
        async with oracle(api_key=OWNER_KEY, base_url=service.url) as client:
            key = await client.mint_member_key(WORKSPACE, MEMBER, "by-hand", 1)
            assert key.plaintext_key in service.live()
            (listed,) = await client.list_member_keys(WORKSPACE, MEMBER)
            assert (listed.id, listed.name, listed.plaintext_key) == (key.id, "by-hand", None)
            await client.revoke_member_key(WORKSPACE, MEMBER, key.id)
        assert service.live() == {}


async def test_the_services_own_client_sees_what_our_provider_mints(oracle: type) -> None:
    with memory_cloud_rig() as rig:
        minted = await rig.provider(timeout=10).mint(MintRequest("lea-1", SCOPE, 900))
        async with oracle(api_key=OWNER_KEY, base_url=rig.service.url) as client:
            (listed,) = await client.list_member_keys(WORKSPACE, MEMBER)
            assert listed.name == "kagura-kernel lea-1"
            await client.revoke_member_key(WORKSPACE, MEMBER, listed.id)
        assert (await rig.provider(timeout=10).revoke(minted.handle)).verdict is Verdict.GONE
