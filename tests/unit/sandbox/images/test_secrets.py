import base64
import hashlib
import string
import time

import pytest

from kagura_kernel.sandbox.images.secrets import (
    assigned_secret,
    formats_in,
    held_by,
    password_in_address,
    secrets_in_command,
)


def made(length: int, letters: str = string.ascii_letters + string.digits, seed: str = "a") -> str:
    """So many letters that look made by chance and are the same in every run."""
    stream = b"".join(hashlib.sha256(f"{seed}{n}".encode()).digest() for n in range(length // 32 + 1))
    return "".join(letters[byte % len(letters)] for byte in stream[:length])


BODY = base64.b64encode(bytes(range(40, 220))).decode()
UPPER = string.ascii_uppercase + "234567"

# Written in two parts, so that no scanner takes this file for a leak.
CREDENTIALS = {
    "a private key": "-----BEGIN " + "RSA PRIVATE KEY-----\n" + BODY,
    "a PuTTY private key": "PuTTY-User-Key-" + "File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\nAAAA",
    "an age key": "AGE-SECRET-" + "KEY-1" + made(58, UPPER),
    "an AWS access key": "AK" + "IA" + made(16, UPPER),
    "a GitHub token": "gh" + "p_" + made(36),
    "a GitLab token": "gl" + "pat-" + made(20),
    "a Slack token": "xo" + "xb-123456789012-" + made(24),
    "an Anthropic key": "sk-" + "ant-api03-" + made(80),
    "an OpenAI key": "sk-" + "proj-" + made(60),
    "a Google API key": "AI" + "za" + made(35),
    "a Google sign-in": "ya" + "29." + made(60),
    "a Stripe key": "sk_" + "live_" + made(24),
    "an npm token": "np" + "m_" + made(36),
    "a PyPI token": "pypi-" + "AgEIcHlwaS5vcmc" + made(80),
    "a Hugging Face token": "hf" + "_" + made(34),
    "a SendGrid key": "SG" + "." + made(22) + "." + made(43),
    "a DigitalOcean token": "dop" + "_v1_" + made(64, "0123456789abcdef"),
}


@pytest.mark.parametrize("what", CREDENTIALS)
def test_a_credential_is_known_by_its_format(what):
    assert list(formats_in(f'x = "{CREDENTIALS[what]}"\n'.encode())) == [what]


@pytest.mark.parametrize(
    "escaped", ["-----BEGIN " + "PRIVATE KEY-----\\n" + BODY, "-----BEGIN " + "OPENSSH PRIVATE KEY-----\r\n" + BODY]
)
def test_a_key_is_known_in_json_and_with_other_line_ends(escaped):
    assert list(formats_in(escaped.encode())) == ["a private key"]


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN " + "PRIVATE KEY-----",
        "-----BEGIN " + "PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\n" + BODY,
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ghp_" + "x" * 36,
        "risk-ant-" + made(40),
        "my_npm_" + made(36),
    ],
)
def test_what_only_looks_like_one_is_left_alone(text):
    assert list(formats_in(text.encode())) == []


HOLDERS = {
    "root/.netrc": "machine h login me password secret1",
    "home/agent/.aws/credentials": "[default]\naws_secret_access_key = abc",
    "root/.docker/config.json": '{"auths": {"r": {"auth": "bWU6bWU="}}}',
    "root/.npmrc": "//r.test/:_authToken=abc",
    "etc/npmrc": "_auth = abc",
    "root/.pypirc": "[pypi]\npassword: abc",
    "root/.git-credentials": "https://me:x@h.test",
    "root/.pgpass": "h:5432:db:me:pw",
    "root/.my.cnf": "[client]\npassword=x",
    "root/.kube/config": "users:\n- user:\n    token: abc",
    "root/.config/gh/hosts.yml": "github.com:\n    oauth_token: abc",
    "root/.config/gcloud/application_default_credentials.json": '{"refresh_token": "1//x"}',
    "root/.claude/.credentials.json": '{"accessToken": "x"}',
    "etc/shadow": "root:$y$j9T$abc:1:0",
}


@pytest.mark.parametrize("path", HOLDERS)
def test_a_file_that_is_made_to_hold_a_credential_is_looked_into(path):
    assert held_by(path, HOLDERS[path].encode())
    assert not held_by("usr/share/doc/readme", HOLDERS[path].encode())


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("root/.netrc", "machine h login me"),
        ("root/.npmrc", "//r.test/:_authToken=${TOKEN}\n# _auth=x"),
        ("root/.docker/config.json", '{"auths": {}}'),
        ("etc/shadow", "root:*:1:0\nagent:!:1"),
    ],
)
def test_such_a_file_without_one_is_left_alone(path, content):
    assert held_by(path, content.encode()) == ""


@pytest.mark.parametrize("path", ["root/.pypirc", "root/.my.cnf", "root/.kube/config", "root/.config/gh/hosts.yml"])
@pytest.mark.parametrize("blank", [b" ", b"\n", b" \t"])
def test_blanks_without_end_are_looked_through_in_linear_time(path, blank):
    began = time.process_time()
    assert held_by(path, blank * (2_000_000 // len(blank))) == ""
    # What takes time by the square would take hours for this.
    assert time.process_time() - began < 10


def test_a_password_in_an_address_is_found_outside_of_libraries_at_once_and_inside_when_it_looks_made():
    simple, strong = b"url = https://me:hunter2@h.test/x", f"https://me:{made(20)}9a@h.test".encode()
    assert password_in_address("etc/app.conf", simple)
    assert not password_in_address("usr/lib/python3/urls.py", simple)
    assert password_in_address("usr/lib/python3/urls.py", strong)


@pytest.mark.parametrize(
    "text", ["https://user:password@h.test", "https://me:${TOKEN}@h", "https://u:<secret>@h", "ssh://h:22/me@x", "a\0"]
)
def test_a_placeholder_in_an_address_is_left_alone(text):
    assert not password_in_address("etc/app.conf", text.encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASSWORD", "correct-horse"),
        ("GITHUB_TOKEN", "abcdef123"),
        ("ANYTHING", made(32)),
        ("INDEX", "https://me:hunter2@h.test/simple"),
        ("X", "gh" + "s_" + made(36)),
    ],
)
def test_a_variable_with_a_secret_is_found(name, value):
    assert assigned_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("LANG", "C.UTF-8"),
        ("GPG_KEY", made(40, "0123456789ABCDEF")),
        ("PYTHON_SHA256", made(64, "0123456789abcdef")),
        ("kagura.recipe", made(64, "0123456789abcdef")),
        ("kagura.base", "sha256:" + made(64, "0123456789abcdef")),
        ("TOKEN", "changeme"),
        ("TOKEN_FILE", "/run/secrets/token"),
        ("API_KEY", "${API_KEY}"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ],
)
def test_an_ordinary_variable_is_left_alone(name, value):
    assert assigned_secret(name, value) == ""


def test_a_secret_on_a_command_line_is_found_and_never_repeated():
    secret = made(20)
    for text in (f"|1 NPM_TOKEN={secret} /bin/sh -c npm ci", f"/bin/sh -c app --password {secret}"):
        (why,) = secrets_in_command(text)
        assert secret not in why


def test_a_step_that_names_no_secret_is_left_alone():
    text = "|2 BASE=debian:bookworm LOCK=floor /bin/sh -c wanted=$(cat base.apt) && apt-get install --yes $wanted"
    assert list(secrets_in_command(text)) == []
