import os
import re
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import PluginNotConfigured
from kagura_kernel.domain.plugins import PluginPermissions
from kagura_kernel.plugins import permissions as planning
from kagura_kernel.plugins.configuration import complete, read_schema
from kagura_kernel.plugins.permissions import JailPlan, NetRule, ShownPath, check_declared, plan_jail

SCHEMA = read_schema(
    {
        "base": {"type": "string", "description": "where", "default": ""},
        "more": {"type": "array", "description": "which", "default": []},
        "url": {"type": "string", "description": "database", "default": ""},
        "size": {"type": "number", "description": "how large", "default": 5},
        "near": {"type": "string", "description": "where", "default": "./data"},
    },
    "greeter",
)


class Ground:
    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "me"
        self.project = self.home / "work" / "sales"
        self.private = self.home / ".local" / "share" / "ours"
        for place in (self.project / "data", self.private, self.home / ".ssh", self.home / "data", tmp_path / "else"):
            place.mkdir(parents=True)
        (self.home / ".netrc").write_text("secret")
        (self.project / "x.db").write_bytes(b"")

    def plan(self, permissions: dict[str, tuple[str, ...]], **values: object) -> JailPlan:
        return plan_jail(
            PluginPermissions(**permissions),
            SCHEMA,
            complete(SCHEMA, values, "greeter").values,
            planning.Ground(self.project, self.home, [self.private]),
            plugin="greeter",
        )

    def problems(self, permissions: dict[str, tuple[str, ...]], **values: object) -> str:
        with pytest.raises(PluginNotConfigured) as raised:
            self.plan(permissions, **values)
        return "\n".join(raised.value.problems)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


READ = {"read": ("{base}",)}
WRITE = {"write": ("{base}",)}
NET = {"net": ("{url}",)}


def test_nothing_is_opened_by_a_plugin_that_asks_for_nothing(ground):
    plan = ground.plan({}, base="/anything")
    assert (plan.shown, plan.net, plan.services) == ((), (), ())
    assert plan.permissions.nothing
    assert plan.config == {"base": "/anything", "more": [], "url": "", "size": 5, "near": "./data"}


def test_a_configured_path_is_shown_under_a_name_that_says_nothing_of_the_host(ground):
    plan = ground.plan(READ, base=str(ground.home / "data"))
    assert plan.shown == (ShownPath(ground.home / "data", "/plugin/read/0", writable=False),)
    assert plan.config["base"] == "/plugin/read/0"
    assert plan.permissions.read == (str(ground.home / "data"),)
    assert str(ground.home) not in repr(plan.config)


@pytest.mark.parametrize("base", ["~/data", "../../data", "~//data"])
def test_paths_begin_at_home_or_in_the_project(ground, base):
    assert ground.plan(READ, base=base).shown[0].source == ground.home / "data"
    assert ground.plan(READ, base="./data").shown[0].source == ground.project / "data"
    assert ground.plan(READ, base="data").shown[0].source == ground.project / "data"
    assert ground.plan(READ, base=".").shown[0].source == ground.project


def test_every_entry_of_a_list_is_shown(ground):
    plan = ground.plan({"read": ("{more}",)}, more=("./data", "~/data", "./data"))
    assert [path.target for path in plan.shown] == ["/plugin/read/0", "/plugin/read/1"]
    assert plan.config["more"] == ["/plugin/read/0", "/plugin/read/1", "/plugin/read/0"]


def test_what_may_be_written_is_read_in_the_same_place(ground):
    plan = ground.plan({"read": ("{base}", "{near}"), "write": ("{base}",)}, base="~/data")
    assert plan.shown == (
        ShownPath(ground.home / "data", "/plugin/write/0", writable=True),
        ShownPath(ground.project / "data", "/plugin/read/0", writable=False),
    )
    assert plan.config["base"] == "/plugin/write/0"
    assert plan.permissions == PluginPermissions(
        read=(str(ground.project / "data"),), write=(str(ground.home / "data"),)
    )


def test_a_literal_is_found_by_what_the_manifest_says(ground):
    plan = ground.plan({"read": ("./data", "{base}")}, base="~/data")
    assert plan.places == {"./data": "/plugin/read/0"}
    assert plan.config["base"] == "/plugin/read/1"


def test_a_field_that_is_empty_opens_nothing(ground):
    plan = ground.plan({"read": ("{base}", "{more}"), "net": ("{url}",)})
    assert (plan.shown, plan.net) == ((), ())
    assert plan.config["base"] == ""


@pytest.mark.parametrize("permissions", [READ, WRITE])
@pytest.mark.parametrize(
    ("base", "why"),
    [
        ("/", "the top of a tree"),
        ("/etc", "belongs to the system"),
        ("/etc/passwd", "belongs to the system"),
        ("/proc/self", "belongs to the system|no file or directory"),
        ("/dev/null", "neither a file nor a directory"),
        ("/usr/lib", "belongs to the system"),
        ("~", "your home directory"),
        ("~/.ssh", "holds keys"),
        ("~/.netrc", "where programs keep their settings and keys"),
        ("~/.local", "private directory|settings and keys"),
        ("~/.local/share/ours", "private directory"),
        ("/nowhere/at/all", "there is no file or directory"),
        ("~somebody/x", "whose home directory"),
    ],
)
def test_places_that_no_jail_sees(ground, permissions, base, why):
    assert re.search(why, ground.problems(permissions, base=base))


def test_a_link_is_judged_by_where_it_leads(ground):
    (ground.project / "alias").symlink_to(ground.home / ".ssh")
    (ground.project / "fine").symlink_to(ground.home / "data")
    assert "holds keys" in ground.problems(READ, base="./alias")
    assert ground.plan(READ, base="./fine").shown[0].source == ground.home / "data"


def test_an_author_does_not_leave_the_project_by_a_link_that_lies_in_it(ground):
    (ground.project / "data").rmdir()
    (ground.project / "data").symlink_to(ground.home / "data")
    assert "out of the project by a link" in ground.problems({"read": ("./data",)})
    # A default is the author's as well, until a person says the same.
    assert "out of the project by a link" in ground.problems({"read": ("{near}",)})


def test_a_link_that_goes_round_is_told(ground):
    (ground.project / "round").symlink_to("round")
    assert "round" in ground.problems(READ, base="./round")


def test_a_pipe_is_not_shown(ground):
    os.mkfifo(ground.project / "pipe")
    assert "neither a file nor a directory" in ground.problems(READ, base="./pipe")


def test_what_programs_of_the_host_act_on_is_read_but_not_written(ground):
    (ground.project / ".git" / "hooks").mkdir(parents=True)
    assert ground.plan(READ, base="./.git").shown
    for base in ("./.git", "./.git/hooks"):
        assert "act on what is in" in ground.problems(WRITE, base=base)
    assert "holds .git" in ground.problems(WRITE, base=".")
    assert ground.plan(WRITE, base="./data").shown


def test_a_project_in_a_hidden_directory_is_still_a_project(ground):
    ground.project = ground.home / ".hidden" / "work"
    (ground.project / "data").mkdir(parents=True)
    assert ground.plan(READ, base="./data").shown


def test_a_sqlite_database_is_shown_alone(ground):
    # What SQLite keeps beside it comes and goes: shown, it would stay as it was when the jail began.
    (ground.project / "x.db-wal").write_bytes(b"")
    plan = ground.plan({"read": ("{url}",), "net": ("{url}",)}, url="sqlite:///x.db?mode=ro")
    assert plan.shown == (ShownPath(ground.project / "x.db", "/plugin/read/0", writable=False),)
    assert plan.config["url"] == "sqlite:////plugin/read/0?mode=ro"
    assert plan.net == ()


def test_a_sqlite_url_with_four_slashes_is_absolute(ground):
    plan = ground.plan({"read": ("{url}",)}, url=f"sqlite:///{ground.project}/x.db")
    assert plan.shown[0].source == ground.project / "x.db"
    told = ground.problems({"read": ("{url}",)}, url=f"sqlite://{ground.project}/x.db")
    assert "four slashes" in told


def test_a_database_in_memory_opens_nothing(ground):
    for url in ("sqlite://", "sqlite:///:memory:", "sqlite:///"):
        assert ground.plan({"read": ("{url}",)}, url=url).shown == ()


def test_a_file_url_is_a_path(ground):
    plan = ground.plan({"read": ("{url}",)}, url=f"file://{ground.project}/x.db")
    assert plan.shown[0].source == ground.project / "x.db"
    assert plan.config["url"] == "file:///plugin/read/0"
    assert "of this machine" in ground.problems({"read": ("{url}",)}, url="file://server/share/x.db")


def test_hosts_are_opened_by_name_by_level_and_exactly(ground):
    plan = ground.plan(
        {"net": ("{more}", "api.example.com:8443")},
        more=("example.com", "*.example.org", "https://example.net/path", "http://10.0.0.5:8080"),
    )
    assert plan.net == (
        NetRule("name", "example.com"),
        NetRule("one-level", "example.org"),
        NetRule("exact", "example.net"),
        NetRule("exact", "10.0.0.5", 8080),
        NetRule("exact", "api.example.com", 8443),
    )
    assert plan.permissions.net[1] == "*.example.org"
    assert plan.config["more"][0] == "example.com"


@pytest.mark.parametrize("host", ["*", "*.com", "localhost", "10.0.0.5", "http://169.254.169.254", "a b"])
def test_hosts_that_nobody_opens(ground, host):
    assert host[:3] in ground.problems({"net": ("{more}",)}, more=(host,))


def test_a_database_is_signed_in_to_by_the_membrane(ground):
    plan = ground.plan(NET, url="postgresql://me:hun%2Fter2@localhost:6432/sales?sslmode=disable")
    [service] = plan.services
    assert (service.host, service.port, service.user, service.database) == ("localhost", 6432, "me", "sales")
    assert service.password.reveal() == "hun/ter2"
    assert plan.config["url"] == "postgresql://me@127.0.0.1:5432/sales?sslmode=disable"
    assert plan.net == ()
    assert plan.permissions.net == ("localhost:6432",)
    assert "hun" not in repr(plan)


def test_each_database_has_a_port_of_its_own_and_one_twice_has_one(ground):
    one, two = "postgresql://a:x@db.example/a", "postgres://b:y@db.example/b"
    plan = ground.plan({"net": ("{url}", "{more}")}, url=one, more=(two, one))
    assert [service.jail_port for service in plan.services] == [5432, 5433]
    assert plan.config["url"] == plan.config["more"][1]
    assert ":5433/b" in plan.config["more"][0]


def test_a_database_that_the_plugin_does_not_name_keeps_its_password_to_itself(ground):
    told = ground.problems({}, url="postgresql://me:hunter2@db.example/x")
    assert told.startswith("url: its password would reach the plugin")
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2@example.com",
        "https://hunter2@example.com",
        "mysql://me:hunter2@db.example:3306/x",
        "https://me:hun/hunter2@example.com",
    ],
)
def test_any_other_url_with_a_password_is_refused_and_not_repeated(ground, url):
    told = ground.problems(NET, url=url)
    assert "hunter2" not in told
    assert "would reach the plugin" in told or "port is a number" in told


def test_a_password_for_another_server_than_postgresql_is_told_what_is_signed_in_to(ground):
    told = ground.problems(NET, url="mysql://me:hunter2@db.example:3306/x")
    assert "a password in a URL of this kind would reach the plugin; only postgresql:// URLs are signed in to" in told
    assert "hunter2" not in told


def test_a_broken_database_url_does_not_show_its_password(ground):
    told = ground.problems(NET, url="postgresql://me:hun/ter2@db.example/x")
    assert told.startswith("url: ")
    assert "hun" not in told.replace("url: ", "")


def test_a_manifest_names_no_database_of_the_persons_own_network(ground):
    assert "address" in ground.problems({"net": ("postgresql://u@10.0.0.5/x",)})


def test_everything_that_is_refused_is_told_at_once(ground):
    told = ground.problems({"read": ("{base}", "/etc"), "net": ("{more}",)}, base="~/.ssh", more=("*",))
    assert told.count("\n") == 2


def test_declared_fields_must_exist_and_hold_text():
    declared = PluginPermissions(read=("{bse}", "{size}", "{more}"), net=("{url}", "example.com"))
    assert check_declared(declared, SCHEMA) == (
        "permissions, read: SCHEMA has no field 'bse', did you mean 'base'?",
        "permissions, read: the field 'size' holds no text",
    )
