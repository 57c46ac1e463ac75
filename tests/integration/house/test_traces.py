"""A leased secret leaves no trace: searched for byte by byte, inside while it is used, and outside then and after."""

import asyncio
import concurrent.futures
import io
import json
import os
import re
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.credential_service import Call, Reply
from tests.support.credential_cloudflare import PARENT, FakeCloudflare
from tests.support.kernel import KERNELSPEC, kernel_environ
from tests.support.traces import Wanted

pytestmark = [pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(600)]

SEARCH = (Path(__file__).parent / "box_search.py").read_text()
GRANTS = "--grant web:read --grant kept:read --grant given:read --net none --timeout 900 --idle 900"
WAYS = {
    "web": 'inject = {{ upstream = "{url}/web/use", variables = {{ WEB = "{{url}}" }} }}',
    "kept": 'inject = {{ way = "file", variables = {{ KEPT_FILE = "{{path}}" }} }}',
    "given": 'inject = {{ way = "env", variables = {{ GIVEN = "{{token}}" }} }}',
}
PROVIDER = """
[providers.{name}]
kind = "cloudflare"
token_file = "{key}"
api_url = "{url}/{name}"
{inject}

[providers.{name}.scopes.read]
permission_groups = ["dns-read"]
resources = {{ "com.cloudflare.api.account.zone.1" = "*" }}
"""
CANARY = "canary-4f1d8c77b2e94c0a"

# What a hostile cell does with the secrets that it was given: everything that `docs/credentials.md` says is hidden.
HOSTILE = """
import base64, json, os, sys, time, urllib.parse
stolen = {"given": os.environ["GIVEN"], "kept": open(os.environ["KEPT_FILE"]).read()}
for name, value in stolen.items():
    data = value.encode()
    written = [value, data.hex(), data.hex().upper(), urllib.parse.quote(value, safe=""), json.dumps(value)]
    written += [base64.b64encode(b"x" * offset + data + b"yz").decode() for offset in range(3)]
    written += [base64.urlsafe_b64encode(data).decode(), base64.b64encode(b"Basic " * 9 + data).decode()]
    for number, text in enumerate(written):
        print("it is", text, "indeed")
        print(text, file=sys.stderr)
        open(f"{name}-{number}.txt", "w").write(f"CANARY {text}\\n")
    for half in (value[:9], value[9:]):
        sys.stdout.write(half)
        sys.stdout.flush()
        time.sleep(0.1)
    print()
    os.symlink(f"/nowhere/{data.hex()}", f"{name}-link")
    open(f"{name}-{data.hex()}", "w").close()
    for number in range(4000):
        print(number, value, "CANARY")
open("harmless.txt", "w").write("CANARY of a file\\n")
""".replace("CANARY", CANARY)


class Cloud(FakeCloudflare):
    """The provider of three leases, and the upstream of one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.minted: dict[str, list[str]] = {name: [] for name in WAYS}  # Every secret it gave, by the lease's name
        self.held = threading.Event()  # Set while a program waits at `/hold`,
        self.let_go = threading.Event()  # which this ends

    def next_trouble(self, call: Call) -> None:
        """Outside the lock of the books: somebody waits here."""
        if call.path == "/web/use/hold":
            self.held.set()
            assert self.let_go.wait(900)

    def respond(self, call: Call) -> Reply:
        _, name, rest = call.path.split("/", 2)
        if rest.startswith("use/"):
            if call.bearer not in self.live():
                return Reply(401, b"")
            if rest == "use/backwards":
                secrets = {name: values[-1] for name, values in self.minted.items()} | {"parent": PARENT}
                return Reply(200, {name: value[::-1] for name, value in secrets.items()})
            # An upstream that repeats what it was sent.
            return Reply(200, {"you sent": dict(call.headers)})
        reply = super().respond(Call(call.method, f"/{rest}", call.query, call.headers, call.body))
        if call.method == "POST" and reply.status == 200:
            # With what quoting and escaping change, so that the forms differ.
            value = reply.body["result"]["value"] + '+/%"=&'
            self._tokens[reply.body["result"]["id"]].value = reply.body["result"]["value"] = value
            self.minted[name].append(value)
        return reply

    @property
    def wanted(self) -> Wanted:
        """Every secret there was, in every form."""
        secrets = {f"{name} {number}": v for name, values in self.minted.items() for number, v in enumerate(values)}
        return Wanted(secrets | {"parent": PARENT})


@dataclass
class House:
    """All that a person has: a home, a configuration, a project, and where their kernel writes."""

    root: Path
    cloud: Cloud
    environ: dict[str, str]

    @property
    def project(self) -> Path:
        return self.root / "project"

    def run(self, sources: list[str]) -> list[str]:
        """Run a notebook in a real kernel and save it; the text of each cell."""
        notebook = new_notebook(cells=list(map(new_code_cell, sources)), metadata={"kernelspec": dict(KERNELSPEC)})
        client = NotebookClient(notebook, timeout=900, kernel_name="python3", allow_errors=True)
        client.extra_arguments = ["--debug"]
        log = self.root / "logs" / "kernel.log"

        async def execute() -> None:
            with log.open("ab") as out:
                kernel = client.async_setup_kernel(cwd=str(self.project), env=self.environ, stdout=out, stderr=out)
                async with kernel:
                    for index, cell in enumerate(notebook.cells):
                        await client.async_execute_cell(cell, index)

        asyncio.run(execute())
        nbformat.write(notebook, self.root / "notebook.ipynb")
        return [json.dumps(cell["outputs"], ensure_ascii=False) for cell in notebook.cells]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    for name in ("project", "config", "temp", "logs"):
        (tmp_path / name).mkdir()
    key = tmp_path / "config" / "parent.key"
    key.write_text(PARENT)
    key.chmod(0o600)
    with Cloud() as cloud:
        texts = [
            PROVIDER.format(name=name, key=key, url=cloud.url, inject=inject.format(url=cloud.url))
            for name, inject in WAYS.items()
        ]
        (tmp_path / "config" / "credentials.toml").write_text("".join(texts))
        grants = ", ".join(f'"{name}:read"' for name in WAYS)
        (tmp_path / "config" / "config.toml").write_text(f"preapproved_grants = [{grants}]\npool_size = 0\n")
        environ = kernel_environ(
            tmp_path / "home",
            JUPYTER_PREFER_ENV_PATH="1",
            KAGURA_CONFIG=str(tmp_path / "config" / "config.toml"),
            TMPDIR=str(tmp_path / "temp"),
        )
        yield House(tmp_path, cloud, environ)
        cloud.let_go.set()


def notebook(house: House, box: str) -> list[str]:
    """The cells: one that searches and steals with its own code, and an agent's, played from a cassette."""
    (house.project / "box_search.py").write_text(SEARCH)
    (house.project / "hostile.py").write_text(HOSTILE)
    calls = [
        {"name": "bash", "arguments": {"command": 'curl -sS "$WEB/echo"; cat "$KEPT_FILE"; echo ' + CANARY}},
        {
            "name": "bash",
            "arguments": {"command": 'echo "$GIVEN"; echo "$GIVEN" > agent.txt', "leases": ["given:read"]},
        },
        {"name": "read_file", "arguments": {"path": "agent.txt"}},
    ]
    lines = [{"kagura_cassette": 1}, *({"call": call} for call in calls), {"done": {"text": "Over."}}]
    (house.project / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
    log = house.root / "logs" / "debug.log"
    began = time.time() - 2
    start = (
        f"import logging\nlogging.basicConfig(filename={str(log)!r}, level=logging.DEBUG)\nlogging.debug({CANARY!r})"
    )
    searching = f'curl -sS "$WEB/echo"\npython3 box_search.py {began} "$WEB" KEPT_FILE'
    return [
        f"{start}\n%load_ext kagura_kernel",
        f'%%sandbox bash --box {box} {GRANTS}\n{searching}\npython3 hostile.py\ncurl -sS "$WEB/hold"\n',
        f"%%kagura --box {box} {GRANTS} --replay c.jsonl\nUse what you were given.\n",
        "%kagura leases",
        "%kagura runs",
    ]


def searched(text: str) -> dict[str, Any]:
    """What the program in the box told."""
    match = re.search(r"SEARCHED(\{.*?\})\\n", text)
    assert match is not None, text[:3000]
    report: dict[str, Any] = json.loads(json.loads(f'"{match[1]}"'))
    return report


def check_inside(report: dict[str, Any]) -> None:
    """Only where it was put, and the search finds what is there."""
    found, readable = report["found"], report["readable"]
    assert found["canary in environ"] == ["planted 0 environ", "planted 0 mem"]
    assert "planted 1 cmdline" in found["canary in cmdline"]
    assert found["canary in mem"] == ["planted 2 mem"]
    planted = {f"file {place}/canary" for place in ("/workspace", "/tmp", "/dev/shm", "/home/agent")}
    assert planted <= set(found["canary in file"])
    assert found["web"] == found["parent"] == []
    assert found["kept"] == [f"file {report['kept']}"]
    # The variables of the cell's own program, which was given it, and of nobody else.
    assert set(found["given"]) <= {"above environ", "above mem"}
    assert "above environ" in found["given"]
    others = {who: parts for who, parts in readable.items() if who.startswith("other ")}
    assert others, "the guest was not even seen"
    assert len([who for who in readable if who.startswith("above ")]) == 1, "more than the cell's own shell"
    for who, parts in others.items():
        assert not {"environ", "maps", "auxv", "stack", "syscall", "io", "mem", "fd"} & set(parts), (who, parts)


def check_outside(house: House) -> None:
    """Nothing below the test's own folder, and the search finds what is there."""
    wanted = house.cloud.wanted
    assert all(house.cloud.minted.values())
    # The journal as a reader of it sees it, whatever the file's own form is.
    journal = Journal.open(house.root / "home" / "kagura")
    events = [row.event.model_dump_json() for row in journal.events()]
    journal.close()
    assert wanted.found_in("\n".join(events).encode()) == set()
    canary = Wanted({"canary": CANARY})
    places = {"kernel.log": False, "debug.log": False, "notebook.ipynb": False, "journal": False, "blobs": False}
    places |= {"outputs": False, "temp": False}
    (house.root / "temp" / "planted").write_text(CANARY)
    for path in sorted(house.root.rglob("*")):
        name = str(path.relative_to(house.root))
        data = str(path.readlink() if path.is_symlink() else name).encode()
        assert wanted.found_in(data) == set(), name
        if path.is_symlink() or not path.is_file() or name == "config/parent.key":
            continue
        data = path.read_bytes()
        assert wanted.found_in(data) == set(), name
        if canary.found_in(data):
            places |= {place: True for place in places if place in name}
    assert places == dict.fromkeys(places, True)


def run_and_look(house: House, box: str, while_held: Callable[[], None]) -> None:
    (house.root / "logs" / "kernel.log").write_text(f"{CANARY}\n")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(house.run, notebook(house, box))
        try:
            while not house.cloud.held.wait(0.05):
                assert not running.done(), running.result()
            while_held()
        finally:
            house.cloud.let_go.set()
        texts = running.result()
    check_inside(searched(texts[1]))
    assert "it is (hidden) indeed" in texts[1]
    assert texts[2].count("(hidden)") >= 2, texts[2]
    assert house.cloud.live() == {}
    check_outside(house)


def test_a_leased_secret_leaves_no_trace_of_a_bubblewrap_box(house):
    wanted: list[set[str]] = []

    def look() -> None:
        # What anybody on this machine sees of every process.
        lines = b"\0".join(p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists())
        wanted.append(house.cloud.wanted.found_in(lines))

    run_and_look(house, "bubblewrap", look)
    assert wanted == [set()]


@pytest.mark.docker
def test_a_leased_secret_leaves_no_trace_of_a_docker_box(house, docker_daemon):
    house.environ["DOCKER_HOST"] = docker_daemon.host
    canary = Wanted({"canary": CANARY})
    looked: list[str] = []

    def docker(*words: str) -> bytes:
        return subprocess.run(["docker", "-H", docker_daemon.host, *words], capture_output=True, check=True).stdout

    def look() -> None:
        wanted = house.cloud.wanted
        owner = '{{.ID}} {{.Label "kagura.owner"}}'
        listed = docker("ps", "--filter", "label=kagura.box", "--no-trunc", "--format", owner).decode().splitlines()
        # Other tests use the same daemon: ours is the box of a child of this process.
        (mine,) = [line.split()[0] for line in listed if _is_below(int(line.split(":")[-2]), os.getpid())]
        image = docker("inspect", "--format", "{{.Image}}", mine).decode().strip()
        for words in (
            ("inspect", mine),
            ("inspect", image),
            ("history", "--no-trunc", image),
            ("diff", mine),
            ("top", mine, "-eo", "pid,args"),
        ):
            said = docker(*words)
            assert wanted.found_in(said) == set(), words
            looked.append(words[0])
        # The daemon keeps nothing of what the pipe carries.
        assert docker("inspect", "--format", "{{.HostConfig.LogConfig.Type}}", mine) == b"none\n"
        # Its own layer: what the image has was there before the secret.
        changed = {line[2:].lstrip("/") for line in docker("diff", mine).decode().splitlines()}
        with tarfile.open(fileobj=io.BytesIO(docker("export", mine))) as archive:
            members = {member.name: member for member in archive}
            assert "etc/passwd" in members
            for name in changed & members.keys():
                assert wanted.found_in(name.encode()) == set()
                if members[name].isfile() and (file := archive.extractfile(members[name])) is not None:
                    assert wanted.found_in(file.read()) == set(), name
        # What the search would find in a container that was handed a secret in the usual wrong ways.
        wrong = docker("create", "--env", f"TOKEN={CANARY}", "--label", f"x={CANARY}", image, "true").decode().strip()
        try:
            assert canary.found_in(docker("inspect", wrong)) == {"canary"}
        finally:
            docker("rm", wrong)

    run_and_look(house, "docker", look)
    assert looked == ["inspect", "inspect", "history", "diff", "top"]


def _is_below(pid: int, above: int) -> bool:
    while pid > 1:
        if pid == above:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False
