"""What docs/operations has for a JupyterHub: figures agree, rights suffice and are no more, and the code runs."""

import asyncio
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import pytest
import yaml
from aiohttp import web

from kagura_kernel.assembly import check_settings_text
from kagura_kernel.cockpit.lines.parser import parse_words
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.domain.settings import parse_settings, parse_shared
from kagura_kernel.journal.postgres import parse_url
from kagura_kernel.sandbox.kubernetes.pods import isolation_of
from kagura_kernel.sandbox.selection import SHARED_NEEDS

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs/operations"
VALUES = yaml.safe_load((FOLDER / "hub-values.yaml").read_text("utf-8"))
PAGE = (ROOT / "docs/hub.md").read_text("utf-8")
SHARED = VALUES["singleuser"]["extraFiles"]["shared"]
CODE = VALUES["hub"]["extraConfig"]["kagura"]


def of_file(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def only(name: str, kind: str, called: str) -> dict[str, Any]:
    [found] = [one for one in of_file(name) if (one["kind"], one["metadata"]["name"]) == (kind, called)]
    return found


class ApiException(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Api:
    """Takes what is made, and says that it is there already where the test says so."""

    def __init__(self, made: list[tuple[str, tuple[Any, ...]]], status: int) -> None:
        self._made, self._status = made, status

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        async def make(*arguments: Any) -> None:
            self._made.append((name, arguments))
            if self._status:
                raise ApiException(self._status)

        return make


@pytest.fixture
def hub(monkeypatch):
    """The Hub's code, as the chart runs it: its names, with what it has made, and what the API answers."""
    made: list[tuple[str, tuple[Any, ...]]] = []
    answers = SimpleNamespace(status=0)

    def api(*_: object) -> Api:
        return Api(made, answers.status)

    client = SimpleNamespace(
        ApiException=ApiException, ApiClient=api, CoreV1Api=api, RbacAuthorizationV1Api=api, NetworkingV1Api=api
    )
    config = SimpleNamespace(load_incluster_config=lambda: None)
    modules = {
        "kubernetes_asyncio": {"client": client, "config": config},
        "psycopg2": {"connect": None, "sql": None},
    }
    for name, holds in modules.items():
        module = ModuleType(name)
        vars(module).update(holds)
        monkeypatch.setitem(sys.modules, name, module)
    names: dict[str, Any] = {"c": SimpleNamespace(KubeSpawner=SimpleNamespace())}
    exec(compile(CODE, "hub-values.yaml", "exec"), names)
    monkeypatch.setenv("KAGURA_GATEWAY_KEY", "sk-master")
    return SimpleNamespace(names=names, made=made, answers=answers)


def spawner(name: str) -> Any:
    return SimpleNamespace(user=SimpleNamespace(name=name), environment={"OURS": "1"}, service_account=None)


def prepared(hub: Any, name: str) -> Any:
    """Somebody's spawner, after the hook."""

    async def key(name: str) -> str:
        return f"sk-{name}"

    hub.names |= {"database_role": lambda name: f"password of {name}", "gateway_key": key}
    one = spawner(name)
    asyncio.run(hub.names["c"].KubeSpawner.pre_spawn_hook(one))
    return one


def test_the_shared_settings_are_right_and_lock_what_they_limit():
    shared = parse_shared(SHARED["stringData"], "values")
    assert SHARED["mountPath"] == "/etc/kagura-kernel/shared.toml"
    check_settings_text("", "a person's", shared)
    settings = parse_settings("", {}, shared=shared)
    limits = {name for name in shared.values if name.startswith(("quota", "box", "budget"))}
    assert limits | {"policy", "fallback_to_host", "kubernetes_runtime_class"} <= set(settings.locked)
    # On a Hub weaker walls are an error at the start.
    assert isolation_of(settings.kubernetes_runtime_class) >= SHARED_NEEDS


def test_what_binds_a_person_has_the_figures_of_what_binds_their_kernel(hub):
    settings, names = parse_settings(SHARED["stringData"].replace("locked", "safe_commands"), {}), hub.names
    assert names["BOXES"] == {
        "pods": str(settings.quota_boxes),
        "limits.cpu": f"{settings.quota_cpus:g}",
        "limits.memory": f"{settings.quota_memory_mib // 1024}Gi",
    }
    assert names["USD_A_DAY"] == settings.quota_usd_per_day


def test_each_person_has_a_place_an_account_a_role_and_a_key_of_their_own(hub):
    ana, ben = prepared(hub, "ana"), prepared(hub, "Ben O'Neil")
    assert ana.environment["OURS"] == "1"
    assert ana.environment["PGUSER"] == "hub_ana"
    assert (ana.environment["PGPASSWORD"], ana.environment["ANTHROPIC_AUTH_TOKEN"]) == ("password of ana", "sk-ana")
    assert ana.service_account != ben.service_account
    assert ben.environment["PGUSER"] == "hub_Ben O'Neil"
    # Nobody's server can keep its runs elsewhere by a variable or a file.
    settings = parse_settings(SHARED["stringData"].replace("locked", "safe_commands"), {})
    assert parse_url(settings.journal_url).username is None
    assert {"journal_url", "shared"} <= {*settings.safe_commands}
    for one in (ana, ben):
        assert re.fullmatch(r"boxes-[a-z0-9]([a-z0-9-]*[a-z0-9])?", one.environment["KAGURA_KUBERNETES_NAMESPACE"])
        assert len(one.environment["KAGURA_KUBERNETES_NAMESPACE"]) < 64
    # Names that look alike are two people.
    assert hub.names["slug"]("a.b") != hub.names["slug"]("a-b") != hub.names["slug"]("A-B")


def test_a_name_is_never_taken_for_another_role(hub):
    # Whoever signs up as the journal's owner, or with a name that PostgreSQL would cut off, is somebody else.
    assert hub.names["role_of"]("keeper") == "hub_keeper"
    with pytest.raises(ValueError, match="cut this name off"):
        hub.names["role_of"]("ü" * 30)


def test_what_the_hub_makes_is_what_one_would_make_by_hand(hub):
    ana = prepared(hub, "ana")
    bodies = dict(hub.made)
    place = ana.environment["KAGURA_KUBERNETES_NAMESPACE"]
    namespace = bodies["create_namespace"][0]["metadata"]
    assert (namespace["name"], namespace["labels"]["pod-security.kubernetes.io/enforce"]) == (place, "restricted")
    by_hand = only("kubernetes.yaml", "NetworkPolicy", "kagura-boxes")
    where, policy = bodies["create_namespaced_network_policy"]
    assert (where, policy["metadata"]["name"], policy["spec"]) == (place, "kagura-boxes", by_hand["spec"])
    where, binding = bodies["create_namespaced_role_binding"]
    role = only("hub-boxes.yaml", "ClusterRole", binding["roleRef"]["name"])
    assert (where, role["rules"]) == (place, only("kubernetes.yaml", "Role", "kagura-kernel")["rules"])
    assert binding["subjects"][0]["name"] == ana.service_account
    where, quota = bodies["create_namespaced_resource_quota"]
    assert (where, quota["spec"]["hard"]) == (place, hub.names["BOXES"])


def test_the_hub_may_make_what_it_makes_and_nothing_else(hub):
    prepared(hub, "ana")
    asked = set()
    for name, _ in hub.made:
        verb, _, what = name.partition("_")
        plain = what.removeprefix("namespaced_").replace("_", "")
        asked.add((verb, "networkpolicies" if plain == "networkpolicy" else f"{plain}s"))
    rights = [only("hub-boxes.yaml", "ClusterRole", "kagura-hub"), only("hub-boxes.yaml", "Role", "kagura-accounts")]
    rules = [rule for one in rights for rule in one["rules"]]
    given = {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}
    assert given == asked | {("bind", "clusterroles")}
    [bind] = [rule for rule in rules if rule["verbs"] == ["bind"]]
    assert bind["resourceNames"] == ["kagura-boxes"]
    subjects = [one["subjects"] for one in of_file("hub-boxes.yaml") if "subjects" in one]
    account = VALUES["hub"]["serviceAccount"]["name"]
    assert subjects == [[{"kind": "ServiceAccount", "name": account, "namespace": hub.names["HUB"]}]] * 2


def test_what_is_there_already_is_left_and_anything_else_keeps_the_server_from_starting(hub):
    hub.answers.status = 409
    assert prepared(hub, "ana").service_account
    hub.answers.status = 403
    with pytest.raises(ApiException):
        prepared(hub, "ana")


async def test_a_key_is_a_person_s_and_their_day_is_limited(hub):
    heard: list[tuple[str, Any]] = []
    people: dict[str, Any] = {}

    async def answer(request: web.Request) -> web.Response:
        assert (request.method, request.headers["Authorization"]) == ("POST", "Bearer sk-master")
        said = await request.json()
        heard.append((request.path, said))
        if request.path == "/user/new" and said["user_id"] in people:
            return web.json_response({}, status=409)
        if request.path.startswith("/user/"):
            people[said["user_id"]] = said
        return web.json_response({"key": f"sk-{len(heard)}"})

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        hub.names["GATEWAY"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
        first, second = await hub.names["gateway_key"]("ana"), await hub.names["gateway_key"]("ana")
    finally:
        await runner.cleanup()
    assert first != second
    assert [path for path, _ in heard] == ["/user/new", "/key/generate", "/user/new", "/user/update", "/key/generate"]
    assert not any("team_id" in said for _, said in heard)
    assert (people["ana"]["max_budget"], people["ana"]["budget_duration"]) == (hub.names["USD_A_DAY"], "1d")


def test_secrets_are_the_hub_s_and_the_gateway_s_and_no_server_has_one():
    secrets = {one["valueFrom"]["secretKeyRef"]["key"] for one in VALUES["hub"]["extraEnv"].values()}
    assert secrets == {"journal-admin", "passwords", "gateway-key"}
    assert "secretKeyRef" not in yaml.safe_dump(VALUES["singleuser"])
    gateway = only("hub-gateway.yaml", "Deployment", "gateway")["spec"]["template"]["spec"]
    named = {one["valueFrom"]["secretKeyRef"]["key"] for one in gateway["containers"][0]["env"]}
    assert named == {"master-key", "anthropic-key", "database-url"}
    assert gateway["automountServiceAccountToken"] is False


def test_people_reach_models_and_not_what_makes_keys():
    [rule] = only("hub-gateway.yaml", "Ingress", "gateway")["spec"]["rules"]
    assert {one["path"] for one in rule["http"]["paths"]} == {"/v1/messages", "/v1/models"}
    allowed = only("hub-gateway.yaml", "NetworkPolicy", "gateway")["spec"]["ingress"][0]["from"]
    assert {one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for one in allowed} == {
        "hub",
        "ingress-nginx",
    }
    policy = VALUES["singleuser"]["networkPolicy"]
    assert (policy["enabled"], policy["egressAllowRules"]["privateIPs"]) == (True, False)


def test_the_image_has_what_a_server_on_a_hub_needs():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    [named] = re.findall(r"\.whl\)\[([\w,]+)\]", (FOLDER / "hub.Dockerfile").read_text("utf-8"))
    assert set(named.split(",")) == {"lab", "kubernetes", "postgres"} <= extras.keys()


def test_every_command_and_setting_on_the_page_exists():
    said = re.findall(r"`kagura-kernel ([a-z][^`\n]*)`|\$ kagura-kernel (.*)", PAGE)
    assert len(said) > 5
    for words in said:
        parse_words(shlex.split("".join(words)), Surface.TERMINAL)
    [endpoints] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    check_settings_text("", "a person's", parse_shared(endpoints, "the page"))


def test_variables_of_the_hub_s_code_are_those_that_the_chart_sets():
    assert set(re.findall(r"""os\.environ\[["'](\w+)["']\]""", CODE)) == set(VALUES["hub"]["extraEnv"])
    assert not {"KAGURA_JOURNAL_ADMIN"} & os.environ.keys()
