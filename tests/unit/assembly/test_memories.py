"""The one memory of a process is opened when it is needed, and its server is told of costs where one is named."""

from types import SimpleNamespace

import pytest

from kagura_kernel.assembly import check_settings_text, load_settings, make_cockpit
from kagura_kernel.assembly.memories import COSTS, TASKS, LazyEvents, LazyMemory, lazy_events
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import ConfigurationError, MemoryUnavailable
from kagura_kernel.domain.settings import Settings
from tests.support.memory_cloud.server import CONTEXT, KEY, RESOURCE, FakeMemoryCloudServer


def settings_from(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load_settings({"KAGURA_CONFIG": str(path), "HOME": str(tmp_path)})


@pytest.mark.parametrize(
    "where", ["ftp://x", "notes.db", "http://far.example/mcp", "https://u:hunter2@far.example/mcp"]
)
def test_settings_that_name_no_memory_are_told_before_anything_starts(tmp_path, where):
    text = f'memory = "{where}"\n'
    with pytest.raises(ConfigurationError, match="memory: it is to be a file") as caught:
        check_settings_text(text, "config.toml")
    assert "hunter2" not in caught.value.message
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(MemoryUnavailable, match="the setting `memory` names") as refused:
        make_cockpit({"KAGURA_CONFIG": str(path), "HOME": str(tmp_path), "KAGURA_HOME": str(tmp_path / "home")})
    assert "hunter2" not in refused.value.message
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("where", ["", "~/m.db", "/var/m.db", "cloud", "postgresql://h/d"])
def test_settings_that_name_one_are_taken(tmp_path, where):
    assert settings_from(tmp_path, f'memory = "{where}"\n').memory == where


def test_a_memory_is_opened_once_and_when_it_is_needed(tmp_path):
    memory = LazyMemory({}, Settings(), tmp_path / "home", SystemClock())
    assert not (tmp_path / "home").exists()
    assert memory() is memory()
    memory.close()
    memory.close()


def test_a_memory_that_could_not_be_opened_is_tried_again(tmp_path):
    (tmp_path / "home").write_text("in the way")
    memory = LazyMemory({}, Settings(), tmp_path / "home", SystemClock())
    with pytest.raises(MemoryUnavailable):
        memory()
    (tmp_path / "home").unlink()
    memory().check()
    memory.close()


def test_costs_are_told_to_the_cloud_once_for_each_run(tmp_path):
    with FakeMemoryCloudServer() as server:
        environ = {
            "KAGURA_API_KEY": KEY,
            "KAGURA_CONTEXT_ID": CONTEXT,
            "HOME": str(tmp_path),
            COSTS[0]: RESOURCE,
            COSTS[1]: KEY,
        }
        costs = lazy_events(environ, Settings(memory=server.mcp_url), COSTS)
        assert costs is not None
        costs("run-1", {"usd": 0.5})
        costs("run-1", {"usd": 0.5})
        costs.close()
        costs.close()
        assert {event["doc_id"] for event in server.events} == {"run-1"}
        assert server.events[0]["payload"] == {"usd": 0.5}


def test_a_cloud_that_refuses_says_so(tmp_path):
    with FakeMemoryCloudServer() as server:
        environ = {"KAGURA_API_KEY": KEY, "KAGURA_CONTEXT_ID": CONTEXT, "HOME": str(tmp_path)}
        for resource, key, told in ((RESOURCE, "wrong", "the key from KAGURA_COST_KEY"), ("no", KEY, COSTS[0])):
            costs = lazy_events(environ | {COSTS[0]: resource, COSTS[1]: key}, Settings(memory=server.mcp_url), COSTS)
            with pytest.raises(MemoryUnavailable, match=told) as caught:
                costs("run-1", {"usd": 0.5})
            costs.close()
            assert "wrong" not in caught.value.message


@pytest.mark.parametrize("where", ["", "postgresql://h/d"])
def test_nobody_is_told_of_costs_where_memories_are_not_in_the_cloud(where):
    assert lazy_events({COSTS[0]: RESOURCE, COSTS[1]: KEY}, Settings(memory=where), COSTS) is None


def test_nobody_is_told_of_costs_where_no_resource_is_named():
    assert lazy_events({}, Settings(memory="cloud"), TASKS) is None


def test_a_resource_without_its_key_is_a_mistake():
    with pytest.raises(ConfigurationError, match=COSTS[1]):
        lazy_events({COSTS[0]: RESOURCE}, Settings(memory="cloud"), COSTS)


def test_a_cloud_that_is_closed_while_it_is_told_hears_what_it_is_told():
    class ClosedMeanwhile:
        def __enter__(self):
            pass

        def __exit__(self, *_error):
            costs._events = None

    heard = []
    cloud = SimpleNamespace(push=lambda run_id, facts: heard.append((run_id, facts)))
    costs = LazyEvents({}, "cloud", COSTS, RESOURCE, KEY, ClosedMeanwhile(), cloud)
    costs("run-1", {"usd": 0.5})
    assert heard == [("run-1", {"usd": 0.5})]
