"""Which back-end a run gets, and in which words it is told."""

from importlib.metadata import EntryPoint

import pytest

from kagura_kernel.domain.errors import IsolationTooWeak, SandboxUnavailable, UnknownName
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import Probe, SandboxBackend
from kagura_kernel.sandbox.selection import choose, is_shared, registered
from tests.support.backends import IdleBackend

WORKS = Probe(ok=True, reason="daemon 20.10 answers, image kagura/python is built")
NO_DAEMON = Probe(ok=False, reason="no Docker daemon answers", install="Install Docker.")
NO_BWRAP = Probe(ok=False, reason="bwrap is not installed", install="apt-get install bubblewrap")


def docker(probe: Probe = WORKS) -> IdleBackend:
    return IdleBackend("docker", isolation=IsolationClass.CONTAINER, probe=probe)


def bubblewrap(probe: Probe = WORKS) -> IdleBackend:
    return IdleBackend("bubblewrap", probe=probe)


def named(*backends: IdleBackend) -> dict[str, SandboxBackend]:
    return {backend.name: backend for backend in backends}


async def test_auto_takes_docker_when_it_works():
    choice = await choose("auto", named(bubblewrap(), docker()))
    assert choice.backend.name == "docker"
    assert choice.reason == "daemon 20.10 answers, image kagura/python is built"


async def test_auto_falls_back_on_bubblewrap_and_says_what_docker_lacks():
    choice = await choose("auto", named(bubblewrap(), docker(NO_DAEMON)))
    assert choice.backend.name == "bubblewrap"
    assert choice.reason == "no Docker daemon answers"


async def test_auto_without_any_names_what_to_install_for_each():
    with pytest.raises(SandboxUnavailable) as told:
        await choose("auto", named(bubblewrap(NO_BWRAP), docker(NO_DAEMON)))
    for part in ("no Docker daemon answers", "bwrap is not installed", "Install Docker.", "apt-get install bubblewrap"):
        assert part in told.value.message


async def test_auto_tries_other_packages_back_ends_last():
    other = IdleBackend("aardvark", probe=Probe(ok=True, reason="it is there"))
    choice = await choose("auto", named(other, bubblewrap(NO_BWRAP), docker(NO_DAEMON)))
    assert choice.backend is other


async def test_the_image_that_is_asked_for_is_the_one_that_is_probed():
    backend = docker()
    await choose("auto", named(backend), image="my/image")
    await choose("docker", named(backend), image="my/image")
    assert backend.probed == ["my/image", "my/image"]


async def test_an_image_that_a_run_asked_for_itself_is_never_left_out_silently():
    taken = await choose("auto", named(bubblewrap(), docker()), image="my/image", image_required=True)
    assert taken.backend.name == "docker"
    with pytest.raises(SandboxUnavailable) as told:
        await choose("auto", named(bubblewrap(), docker(NO_DAEMON)), image="my/image", image_required=True)
    for part in ("no Docker daemon answers", "Install Docker.", "bubblewrap: it has no images, and my/image was asked"):
        assert part in told.value.message


async def test_an_image_of_the_settings_does_not_keep_a_run_from_a_box_without_images():
    choice = await choose("auto", named(bubblewrap(), docker(NO_DAEMON)), image="my/image")
    assert choice.backend.name == "bubblewrap"


async def test_a_named_back_end_is_that_one_or_its_error():
    assert (await choose("bubblewrap", named(bubblewrap(), docker()))).backend.name == "bubblewrap"
    with pytest.raises(SandboxUnavailable, match=r"docker: no Docker daemon answers\. Install Docker\."):
        await choose("docker", named(bubblewrap(), docker(NO_DAEMON)))


async def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match=r"no box 'dokcer'.*mean 'docker'.*auto, docker, bubblewrap"):
        await choose("dokcer", named(bubblewrap(), docker()))


@pytest.mark.parametrize("name", ["auto", "docker", "bubblewrap"])
async def test_a_shared_deployment_refuses_weak_walls_even_where_they_work(name: str):
    backends = named(bubblewrap(), docker())
    with pytest.raises(IsolationTooWeak, match="gvisor"):
        await choose(name, backends, shared=True)
    assert all(backend.probed == [] for backend in backends.values() if isinstance(backend, IdleBackend))


async def test_a_shared_deployment_takes_the_strong_one_though_weaker_ones_come_first():
    strong = IdleBackend("gvisor", isolation=IsolationClass.GVISOR)
    choice = await choose("auto", named(docker(), strong), shared=True)
    assert choice.backend is strong


async def test_a_shared_deployment_never_falls_back_on_weaker_walls():
    strong = IdleBackend("gvisor", isolation=IsolationClass.GVISOR, probe=Probe(ok=False, reason="runsc is missing"))
    with pytest.raises(SandboxUnavailable, match="runsc is missing"):
        await choose("auto", named(docker(), bubblewrap(), strong), shared=True)


async def test_auto_leaves_gvisor_to_shared_deployments():
    strong = IdleBackend("gvisor", isolation=IsolationClass.GVISOR)
    with pytest.raises(SandboxUnavailable, match="bwrap is not installed"):
        await choose("auto", named(strong, bubblewrap(NO_BWRAP), docker(NO_DAEMON)))
    assert strong.probed == []
    assert (await choose("gvisor", named(strong, docker()))).backend is strong


async def test_a_weak_name_is_refused_in_a_shared_deployment_though_a_strong_one_works():
    strong = IdleBackend("gvisor", isolation=IsolationClass.GVISOR)
    with pytest.raises(IsolationTooWeak, match="docker"):
        await choose("docker", named(docker(), strong), shared=True)


async def test_an_order_of_the_settings_is_what_auto_tries_and_nothing_else():
    far = IdleBackend("ssh", probe=Probe(ok=False, reason="no machine is named"))
    near, never = bubblewrap(), docker()
    choice = await choose("auto", named(near, never, far), order=("ssh", "bubblewrap"))
    assert (choice.backend, never.probed) == (near, [])
    assert choice.reason == "by the order in the settings; ssh: no machine is named"
    with pytest.raises(SandboxUnavailable) as told:
        await choose("auto", named(near, docker(NO_DAEMON), far), order=("docker", "ssh"))
    assert "docker: no Docker daemon answers; ssh: no machine is named. For docker: Install" in told.value.message
    assert (await choose("docker", named(never, far), order=("ssh",))).backend is never


async def test_an_order_passes_over_weak_walls_where_others_share_and_says_so():
    strong = IdleBackend("gvisor", isolation=IsolationClass.GVISOR)
    weak = docker()
    choice = await choose("auto", named(weak, strong), order=("docker", "gvisor"), shared=True)
    assert (choice.backend, weak.probed) == (strong, [])
    assert choice.reason == "by the order in the settings; docker: container walls are too weak where others share"
    with pytest.raises(IsolationTooWeak):
        await choose("auto", named(weak, strong), order=("docker",), shared=True)


async def test_a_misspelt_order_is_an_error():
    with pytest.raises(UnknownName, match="no box 'dokcer'"):
        await choose("auto", named(docker()), order=("dokcer",))


async def test_no_back_end_at_all_is_an_error_and_never_the_host():
    with pytest.raises(SandboxUnavailable):
        await choose("auto", {})
    with pytest.raises(SandboxUnavailable):
        await choose("auto", {}, shared=True)


@pytest.mark.parametrize(
    ("setting", "user", "shared"),
    [(None, None, False), (None, "", False), (None, "ada", True), (False, "ada", False), (True, None, True)],
)
def test_the_setting_decides_and_jupyterhub_where_it_is_silent(setting: bool | None, user: str | None, shared: bool):
    assert is_shared(setting, user) is shared


# ------------------------------------------------------------------ registered


def zebra() -> IdleBackend:
    return IdleBackend("zebra")


def breaks() -> IdleBackend:
    raise RuntimeError("no licence")


def entry(name: str, attribute: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{attribute}", "kagura_kernel.backends")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, __name__, type(sys)(__name__))
    for function in (zebra, breaks):
        setattr(sys.modules[__name__], function.__name__, function)


def test_a_package_registers_a_back_end_by_entry_point():
    found = registered([entry("zebra", "zebra")])
    assert list(found.backends) == ["zebra"]
    assert found.broken == {}


@pytest.mark.parametrize("name", ["docker", "bubblewrap", "gvisor", "auto"])
def test_built_in_names_cannot_be_taken(name: str):
    found = registered([entry(name, "zebra")])
    assert not found.backends
    assert "built in" in found.broken[name].why


def test_a_broken_one_is_left_out_with_its_reason_and_the_others_stay():
    found = registered([entry("yak", "breaks"), entry("x", "missing"), entry("zebra", "zebra")])
    assert list(found.backends) == ["zebra"]
    assert "no licence" in found.broken["yak"].why
    assert list(found.broken) == ["x", "yak"]


def test_one_that_calls_itself_otherwise_is_left_out():
    found = registered([entry("horse", "zebra")])
    assert not found.backends
    assert "'zebra'" in found.broken["horse"].why


def test_of_two_packages_with_one_name_neither_is_taken():
    found = registered([entry("zebra", "zebra"), entry("zebra", "breaks")])
    assert not found.backends
    assert "one of the same name" in found.broken["zebra"].why


def test_a_package_that_is_found_twice_is_one():
    assert list(registered([entry("zebra", "zebra"), entry("zebra", "zebra")]).backends) == ["zebra"]


def test_nothing_is_registered_by_default():
    assert not registered().backends


async def test_whoever_chooses_may_find_out_in_another_way():
    tried: list[str] = []

    async def probe(backend: SandboxBackend) -> Probe:
        tried.append(backend.name)
        return NO_DAEMON if backend.name == "docker" else WORKS

    backends = named(docker(), bubblewrap(NO_BWRAP))
    assert (await choose("auto", backends, probe=probe)).backend.name == "bubblewrap"
    assert (await choose("bubblewrap", backends, probe=probe)).reason == f"asked for; {WORKS.reason}"
    assert tried == ["docker", "bubblewrap", "bubblewrap"]
