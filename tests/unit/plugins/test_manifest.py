import json

import pytest

from kagura_kernel.domain.errors import PluginInvalid
from kagura_kernel.domain.plugins import PluginPermissions
from kagura_kernel.plugins.manifest import MAX_PROBLEMS, Hints, parse_manifest
from tests.support.plugin_files import manifest_of


def problems(data: bytes, directory: str = "greeter") -> str:
    with pytest.raises(PluginInvalid) as raised:
        parse_manifest(data, directory)
    assert raised.value.plugin == directory
    return "\n".join(raised.value.problems)


def test_a_manifest_is_read_whole():
    data = manifest_of(
        "fs-read",
        version="2.1.0-rc.1+build.5",
        hostModules=["fs_read", "fs_stat"],
        hints={"overview": "Reads.", "criticalRules": ["One\nTwo"], "relatedModules": [], "commonPatterns": ["x = 1"]},
        permissions={"read": ["{baseDir}", "./data", "/srv/data", "~/data"], "net": ["example.com"]},
    )
    manifest = parse_manifest(data, "fs-read")
    assert (manifest.name, manifest.version) == ("fs-read", "2.1.0-rc.1+build.5")
    assert manifest.host_modules == ("fs_read", "fs_stat")
    assert manifest.hints == Hints(overview="Reads.", critical_rules=("One\nTwo",), common_patterns=("x = 1",))
    assert manifest.permissions == PluginPermissions(
        read=("{baseDir}", "./data", "/srv/data", "~/data"), net=("example.com",)
    )


def test_hints_and_permissions_may_be_left_out():
    manifest = parse_manifest(manifest_of("greeter"), "greeter")
    assert manifest.hints == Hints()
    assert manifest.permissions.nothing


def test_a_manifest_is_not_changed():
    manifest = parse_manifest(manifest_of("greeter"), "greeter")
    with pytest.raises(ValueError, match="frozen"):
        manifest.name = "other"


def test_all_faults_are_told_at_once():
    told = problems(
        manifest_of(
            "greeter",
            version="v1.0",
            description="",
            hostModules=["json", "Bad-Name", "class"],
            hint={},
            permissions={"read": ["data"], "reed": []},
            hints={"overview": 7, "rules": []},
        ).replace(b'"greeter"', b'"Greeter"', 1)
    )
    for part in (
        "there is no key 'hint', did you mean 'hints'?",
        "there is no key 'permissions.reed', did you mean 'read'?",
        "there is no key 'hints.rules'",
        "name: a name is in kebab-case",
        "version: a version has no v before it",
        "description: it is empty",
        "'json' is a module of Python's own",
        "'Bad-Name' is no name for a module",
        "'class' is no name for a module",
        "hints.overview: it is a text",
        "permissions: read: 'data': a path begins with",
    ):
        assert part in told


@pytest.mark.parametrize("version", ["1.0.0", "0.0.1", "10.20.30", "1.0.0-alpha", "1.0.0-0.3.7", "1.0.0+20130313"])
def test_versions_that_are_semver(version):
    assert parse_manifest(manifest_of("greeter", version=version), "greeter").version == version


@pytest.mark.parametrize(
    "version", ["v1.0.0", "1", "1.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0 ", "1.0.0\n", "", "١.0.0"]
)
def test_versions_that_are_not(version):
    assert "version" in problems(manifest_of("greeter", version=version))


@pytest.mark.parametrize(
    "name", ["Greeter", "gree_ter", "-greeter", "greeter-", "gree--ter", "1greeter", "a/b", "..", "a" * 65, "grée"]
)
def test_names_that_are_not_kebab_case(name):
    assert "kebab-case" in problems(manifest_of(name, hostModules=["greeter"]), "greeter")


def test_a_name_is_that_of_its_directory():
    assert "its directory is 'other'" in problems(manifest_of("greeter"), "other")


def test_without_a_directory_any_name_will_do():
    assert parse_manifest(manifest_of("greeter"), None).name == "greeter"


@pytest.mark.parametrize(
    ("modules", "why"),
    [
        ([], "hostModules: it has no entry"),
        ("greeter", "hostModules: it is a list"),
        ([f"m{number}" for number in range(20)], "more than 16 entries"),
        (["a", "b", "a"], "'a' stands in it more than once"),
        (["os"], "of Python's own"),
        (["fcntl"], "of Python's own"),
        (["kagura_host"], "a name of ours"),
        (["kagura_plugin"], "a name of ours"),
        (["import"], "no name for a module"),
        (["_private"], "no name for a module"),
        (["a.b"], "no name for a module"),
        ([7], "hostModules.0: it is a text"),
    ],
)
def test_modules_that_cannot_be(modules, why):
    told = problems(manifest_of("greeter", hostModules=modules))
    assert why in told
    assert told.count("hostModules") == 1


@pytest.mark.parametrize("missing", ["name", "version", "description", "hostModules"])
def test_what_is_missing_is_named(missing):
    assert f"{missing}: it is missing" in problems(manifest_of("greeter", **{missing: None}))


@pytest.mark.parametrize("text", ["two\nlines", "turned \u202e around", "zero\u200bwidth", "\x1b[31mred", " "])
def test_a_description_is_one_line_that_can_be_seen(text):
    assert "description" in problems(manifest_of("greeter", description=text))


def test_a_hint_holds_nothing_that_is_not_seen():
    told = problems(manifest_of("greeter", hints={"criticalRules": ["turned \u202e around"]}))
    assert "U+202E" in told


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xef\xbb\xbf" + manifest_of("greeter"), "byte order mark"),
        (manifest_of("greeter").decode().encode("utf-16"), "byte order mark"),
        (b'{"name": "gr\xff"}', "not UTF-8"),
        (b"", "not JSON"),
        (b"[]", "no JSON object"),
        (b'{"name": "greeter",}', "line 1"),
        (b'{"version": NaN}', "NaN is no number"),
        (b'{"version": Infinity}', "Infinity is no number"),
        (b'{"version": ' + b"9" * 5000 + b"}", "not JSON that can be used"),
        (b'{"name": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", "deep"),
        (b'{"name": ' + b"[" * 20 + b"]" * 20 + b"}", "16 levels deep"),
        (b'{"name": "\\ud800"}', "half of a character"),
        (b'{"name": "' + b"x" * 70_000 + b'"}', "at most 65,536"),
    ],
)
def test_bytes_that_could_be_read_in_two_ways_are_refused(data, why):
    assert why in problems(data)


def test_a_key_that_stands_twice_is_refused_wherever_it_stands():
    assert "'name' stands more than once" in problems(manifest_of("greeter")[:-1] + b', "name": "greeter"}')
    inner = json.dumps({"read": []})[:-1] + ', "read": ["/data"]}'
    data = manifest_of("greeter")[:-1] + f', "permissions": {inner}}}'.encode()
    assert "'read' stands more than once" in problems(data)


@pytest.mark.parametrize(
    "permissions",
    [
        {"read": ["/data/../etc"]},
        {"read": ["{a}/b"]},
        {"read": [""]},
        {"read": ["/data", "/data"]},
        {"write": ["relative"]},
        {"net": ["*"]},
        {"net": ["*.com"]},
        {"net": ["*.*.example.com"]},
        {"net": ["10.0.0.1"]},
        {"net": ["localhost"]},
        {"net": ["https://user:pw@example.com"]},
        {"net": ["example.com:99999"]},
        {"net": 7},
        {"read": [7]},
        [],
    ],
)
def test_permissions_that_cannot_be(permissions):
    assert "permissions" in problems(manifest_of("greeter", permissions=permissions))


def test_a_manifest_of_nothing_but_faults_is_told_in_a_few_lines():
    keys = ",".join(f'"{number:x}":1' for number in range(6000))
    with pytest.raises(PluginInvalid) as refused:
        parse_manifest(f"{{{keys}}}".encode(), "greeter")
    assert len(refused.value.problems) == MAX_PROBLEMS + 1
    assert refused.value.problems[-1].endswith("more faults")
