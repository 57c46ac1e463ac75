"""The images, built for real on a Debian made with debootstrap, and looked through."""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.domain.errors import ImageBuildFailed, SandboxUnavailable
from kagura_kernel.sandbox import streams
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.images.build import BuildPlan, ImageDaemon, build_chain
from kagura_kernel.sandbox.images.recipes import Recipes
from kagura_kernel.sandbox.images.secrets import Machine
from kagura_kernel.sandbox.images.verification import Kind, verify_images
from tests.support.docker_images import CHAIN, DEBIAN, building, client_of, ensure_images, plan_here
from tests.support.dockerd import TestDaemon
from tests.support.effort import thorough

# Building the chain fetches some hundred megabytes where no test run has done so before.
pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
PREFIX = "kagura-test/images-"
SECRET = "Zx9" + "Lq2Rt7Vb4Nm8Kp1Ws5"


@pytest.fixture(scope="module")
def chain(docker_daemon: TestDaemon) -> TestDaemon:
    """The daemon with every image that the tests build."""
    ensure_images(docker_daemon, CHAIN)
    return docker_daemon


@pytest.fixture
def images(docker_daemon: TestDaemon) -> Iterator[ImageDaemon]:
    """The daemon, asked about images; what a test has named is gone afterwards."""
    with ImageDaemon(Endpoint(docker_daemon.host)) as daemon:
        yield daemon
    client = client_of(docker_daemon)
    try:
        for image in client.images.list():
            for tag in image.tags:
                if tag.startswith(PREFIX):
                    client.images.remove(tag, force=True)
    finally:
        client.close()


@pytest.fixture
def alone(docker_daemon: TestDaemon) -> Iterator[None]:
    """Nobody else builds meanwhile."""
    with building(docker_daemon):
        yield


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    """The recipes in a directory that a test may change."""
    shutil.copytree(Recipes.found().directory, tmp_path / "images")
    return Recipes(tmp_path / "images")


def built(daemon: TestDaemon, name: str, dockerfile: str, files: Mapping[str, bytes], **more) -> str:
    """An image of that Dockerfile and these files, under a name that goes with the test."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, content in {"Dockerfile": dockerfile.encode(), **files}.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    stream.seek(0)
    client = client_of(daemon)
    try:
        client.images.build(fileobj=stream, custom_context=True, tag=f"{PREFIX}{name}", rm=True, forcerm=True, **more)
    finally:
        client.close()
    return f"{PREFIX}{name}"


def said(daemon: TestDaemon, image: str, command: str) -> str:
    """What a command prints in an image, without network, on a read-only root."""
    client = client_of(daemon)
    try:
        done = client.containers.run(
            image, ["bash", "-c", command], network_mode="none", read_only=True, remove=True, tmpfs={"/tmp": ""}
        )
    finally:
        client.close()
    return done.decode()


def test_every_image_of_the_chain_holds_what_it_promises_and_runs_as_nobody(chain):
    everywhere = (
        "set -e; id -u; git --version; gh --version; rg --version; jq --version; ssh -V 2>&1; python3 --version; "
    )
    for image in CHAIN:
        assert said(chain, f"kagura/{image}", everywhere).startswith("65532\n")
    python = "import matplotlib.pyplot, numpy, pandas, pyarrow, pytest; print(pandas.DataFrame({'a': [1, 2]}).a.sum())"
    assert said(chain, "kagura/python", f'HOME=/tmp python -c "{python}"') == "3\n"
    assert said(chain, "kagura/python", "python -m venv /tmp/v && pip --version").startswith("pip ")
    assert said(chain, "kagura/node", "set -e; node -p 6*7; npm --version; tsc --version").startswith("42\n")
    assert said(chain, "kagura/aws", "HOME=/tmp aws --version").startswith("aws-cli/")
    assert said(chain, "kagura/agent", "HOME=/tmp claude --version").endswith("(Claude Code)\n")


@pytest.mark.usefixtures("chain")
def test_our_own_chain_is_clean(images):
    # The last one holds the layers of all.
    names = CHAIN if thorough("images/", "kagura_kernel/sandbox/images/") else (CHAIN[0], CHAIN[-1])
    verdicts = verify_images(images, [f"kagura/{name}:latest" for name in names], Machine.of(plan_here().settings))
    assert [one.findings for one in verdicts] == [()] * len(names)
    # Each holds its base's layers and more: nothing was passed over.
    assert [one.layers for one in verdicts] == sorted({one.layers for one in verdicts})
    assert all(one.files > 5_000 for one in verdicts)


def test_nothing_of_the_fetching_stages_stays_with_the_daemon(chain):
    client = client_of(chain)
    try:
        with building(chain):
            assert client.images.list(filters={"label": "kagura.stage=fetch", "dangling": True}) == []
    finally:
        client.close()


@pytest.mark.usefixtures("chain", "alone")
def test_what_is_up_to_date_is_not_built_again(images):
    made = build_chain(images, Recipes.found(), CHAIN, plan_here())
    assert [one.kept for one in made] == [True] * len(CHAIN)


PLANTED = {
    "netrc": ("root/.netrc", b"machine h.test login me password " + SECRET.encode(), Kind.CREDENTIAL),
    "aws": ("root/.aws/credentials", b"[default]\naws_secret_access_key = " + SECRET.encode(), Kind.CREDENTIAL),
    "docker": ("root/.docker/config.json", b'{"auths": {"r.test": {"auth": "bWU6bWU="}}}', Kind.CREDENTIAL),
    "npmrc": ("root/.npmrc", b"//r.test/:_authToken=" + SECRET.encode(), Kind.CREDENTIAL),
    "pip": ("etc/pip.conf", b"[global]\nindex-url = https://me:" + SECRET.encode() + b"@m.test/s", Kind.CREDENTIAL),
    "key": ("srv/id", b"-----BEGIN " + b"PRIVATE KEY-----\n" + b"MIIEvQIBADANBgkqhkiG9w0B" * 4, Kind.CREDENTIAL),
    "token": ("usr/lib/data.bin", b"\0\1gh" + b"p_" + (SECRET * 2)[:36].encode() + b"\0", Kind.CREDENTIAL),
    "deleted": ("var/tmp/token", b"gh" + b"o_" + (SECRET * 2)[:36].encode(), Kind.CREDENTIAL),
    "ours": ("opt/thing.py", Path(streams.__file__).read_bytes(), Kind.FIRST_PARTY),
    "package": ("usr/lib/python3/kagura_kernel/__init__.py", b"", Kind.FIRST_PARTY),
    "proxy": ("etc/apt/apt.conf.d/99proxy", b'Acquire::http::Proxy "http://10.0.0.1:3128";', Kind.MACHINE),
    "mirror": ("etc/apt/sources.list.d/m.list", b"deb http://mirror.test/debian bookworm main", Kind.MACHINE),
    "machine": ("usr/share/note", b"fetched by mirror.corp.test", Kind.MACHINE),
}


@pytest.mark.usefixtures("images", "alone")
def test_everything_that_may_not_be_in_an_image_is_found_and_no_secret_is_told(docker_daemon, monkeypatch, capsys):
    dockerfile = "\n".join(
        [
            f"FROM {DEBIAN}",
            *(f"COPY {name} /{path}" for name, (path, _, _) in PLANTED.items()),
            "RUN rm /var/tmp/token && mkdir -m 0777 /opt/open && cp /bin/true /opt/tool && chmod 4755 /opt/tool",
            "ARG NPM_TOKEN",
            "RUN true",
            f"ENV DB_PASSWORD={SECRET}",
            f"LABEL note=https://me:{SECRET}@h.test",
        ]
    )
    files = {name: content for name, (_, content, _) in PLANTED.items()}
    image = built(docker_daemon, "planted", dockerfile, files, buildargs={"NPM_TOKEN": SECRET})
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.host)
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.corp.test/simple")

    assert main(["images", "verify", "--json", image]) == 1
    told = capsys.readouterr().out
    (verdict,) = json.loads(told)
    found = {(one["where"], one["kind"]) for one in verdict["findings"]}
    assert {(path, kind.value) for path, _, kind in PLANTED.values()} <= found
    assert {("opt/open", "writable"), ("opt/tool", "setuid"), ("user", "root")} <= found
    assert {("env DB_PASSWORD", "credential"), ("label note", "credential")} <= found
    assert any(where.startswith("history") and kind == "credential" for where, kind in found)
    assert [one["where"] for one in verdict["findings"] if one["deleted"]] == ["var/tmp/token"]
    assert all(
        one["layer"] > 1 for one in verdict["findings"] if one["where"] in {path for path, _, _ in PLANTED.values()}
    )
    assert SECRET not in told


@pytest.mark.usefixtures("alone")
def test_a_lock_that_the_archive_cannot_meet_is_told_and_the_name_stays_where_it_was(images, recipes):
    plan = BuildPlan(base=DEBIAN, prefix=PREFIX, network="host", settings=plan_here().settings)
    (recipes.directory / "base.Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    (before,) = build_chain(images, recipes, ["base"], plan)

    shutil.copy(Recipes.found().directory / "base.Dockerfile", recipes.directory)
    (recipes.directory / "base.apt").write_text("bash\n")
    (recipes.directory / "base.apt.lock").write_text("bash=99:1.0\n")
    for lock in ("floor", "strict"):
        strict = BuildPlan(base=DEBIAN, prefix=PREFIX, network="host", lock=type(plan.lock)(lock))
        with pytest.raises(ImageBuildFailed, match=r"lock cannot be met.*bash.*dev/images\.sh lock base"):
            build_chain(images, recipes, ["base"], strict)
        found = images.inspect(before.tag)
        assert found is not None
        assert found["Id"] == before.id


@pytest.mark.usefixtures("alone")
def test_a_network_that_fails_is_tried_three_times(images, recipes):
    text = "ARG BASE\nFROM ${BASE}\nRUN echo 'E: Failed to fetch x  Connection timed out' && false\n"
    (recipes.directory / "base.Dockerfile").write_text(text)
    said_so: list[str] = []
    with pytest.raises(ImageBuildFailed, match="could not be fetched"):
        build_chain(images, recipes, ["base"], BuildPlan(base=DEBIAN, prefix=PREFIX, pause=0), said_so.append)
    assert len([line for line in said_so if line.endswith("trying again")]) == 2
    assert len([line for line in said_so if "RUN" in line]) == 3


@pytest.mark.usefixtures("alone")
def test_a_base_that_is_nowhere_is_told_with_what_helps(images):
    plan = BuildPlan(base="127.0.0.1:1/nowhere:none", prefix=PREFIX)
    with pytest.raises(ImageBuildFailed, match="--base IMAGE"):
        build_chain(images, Recipes.found(), ["base"], plan)


def test_an_image_that_is_not_there_cannot_be_verified(images):
    with pytest.raises(SandboxUnavailable, match="no image kagura-test/none"):
        verify_images(images, ["kagura-test/none"])


def test_the_list_tells_what_is_built_from_what_and_what_is_not(chain, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_HOST", chain.host)
    assert main(["images", "list", "--json"]) == 0
    told = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert all(told[name]["current"] and told[name]["locked"] == "locked" for name in CHAIN)
    assert told["python"]["base"] == told["base"]["id"]
    assert told["python"]["size"] > told["base"]["size"] > 50_000_000
    assert (told["gcloud"]["id"], told["gcloud"]["tested"]) == ("", False)
    assert main(["images", "list", "--tag-prefix", PREFIX]) == 0
    assert capsys.readouterr().out.count("not built") == len(told) + 1
