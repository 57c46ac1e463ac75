"""One example of each carrier, what looks like it and is none, and what holds for every text."""

import json

import pytest

from kagura_kernel.domain.errors import RedactionUnavailable
from kagura_kernel.kit.redaction import engine
from kagura_kernel.kit.redaction.redactor import Redactor
from tests.support.redactors import shared_redactor

SECRETS = [
    ("postgres://app:S3cretPw1@db/x", "S3cretPw1"),
    ("jdbc:mysql://h/db?user=a&password=Zk83jdPq", "Zk83jdPq"),
    ("Server=tcp:x.db.net;User Id=sa;Password=Qw9!kd82LmZ;Encrypt=true", "Qw9!kd82LmZ"),
    ("mysql -u root -pS3cr3tRoot mydb", "S3cr3tRoot"),
    ("sshpass -p tigerlily ssh u@h", "tigerlily"),
    ("curl -u admin:Kd83jsk2 https://x", "Kd83jsk2"),
    ("echo 'deploy:Nx72jqP1' | chpasswd", "Nx72jqP1"),
    ("PGPASSWORD=vK39dk2l psql -h x", "vK39dk2l"),
    ("machine api.host\n  login bob\n  password kd93mslq\n", "kd93mslq"),
    ("db.host:5432:app:bob:Xk29Kd8", "Xk29Kd8"),
    ('{"auths":{"r.io":{"auth":"Ym9iOktkODNqc2txMQ=="}}}', "Ym9iOktkODNqc2txMQ=="),
    ("requirepass kD93jdkQ2", "kD93jdkQ2"),
    ("<server><username>u</username><password>k3Dj29dk</password></server>", "k3Dj29dk"),
    ('<add key="DbPassword" value="Zk93kdl2" />', "Zk93kdl2"),
    ("spring.datasource.password=G7k!29dk", "G7k!29dk"),
    ('const std::string kApiToken = "9dk3kd02kd9slq1mz7";', "9dk3kd02kd9slq1mz7"),
    ("the staging password is Tr4ub0dor&9", "Tr4ub0dor&9"),
    ("Das Passwort für den Testserver lautet Sommer2024!", "Sommer2024!"),
    ("本番のパスワードはHanabi2024!です。", "Hanabi2024!"),
    ("数据库密码是 Xk29dk!q ，不要外传", "Xk29dk!q"),
    ('token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"', "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"),
    ('a = "ghp_wWPw5k4aXcaT"\nb = "4fNP0UcnZwJUVFk6LO0pINUx"\ntoken = a + b\n', "4fNP0UcnZwJUVFk6LO0pINUx"),
    ("Cookie: sessionid=8dk3kdl2kd9slq1mz7x0qp; theme=dark", "8dk3kdl2kd9slq1mz7x0qp"),
    ("kind: Secret\nmetadata:\n  name: x\ndata:\n  foo: a2QzamRrcTE=\n", "a2QzamRrcTE="),
    ("Recovery codes:\n1. 8kd3-92ks\n2. x9d2-k3lq\n", "x9d2-k3lq"),
    ("INSERT INTO users (name, password) VALUES ('bob', 'Kd83!jsk'), ('al', 'Zx9!dkwq');", "Zx9!dkwq"),
    ("name,password\nbob,Kd83!jsk\nal,Zx9!dkwq\n", "Zx9!dkwq"),
    ("- name: DB_PASSWORD\n  value: Kd83jskQ\n", "Kd83jskQ"),
]
LOOK_ALIKES = [
    "password=changeme",
    "password=<your-password>",
    "password: ${PASSWORD}",
    'token = os.environ["TOKEN"]',
    "def login(user: str, password: str) -> None:",
    "AKIAIOSFODNN7EXAMPLE",
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "uid: 3f2b8a90-1c4d-4e5f-9a6b-7c8d9e0f1a2b",
    "cache key: 9f86d081884c7d659a2feaa0c55ad015",
    "The password must be at least 8 characters long.",
    "'password' => 'required|min:8|confirmed',",
    "      secretKeyRef: {name: db-creds, key: password}",
    "postgres://user:password@localhost:5432/db",
    "mysql -u root -p mydb",
    "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    "Das Passwort muss mindestens 8 Zeichen lang sein.",
    "パスワードは8文字以上で入力してください",
    "密码必须包含8个字符",
    '"next_page_token": "CAUQAA9kdl3kdl2kd9slq1mz7x0qp"',
    "publishable: pk_live_51HxKd83jskq1LmN0pQrStUvW1",
    "password: %{DB_PASSWORD}",
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about",
]
KEY = "\n".join("MIIEpAIBAAKCAQEA7v1Kd83jskQ1LmN0pQrStUvWxYz01234kd93jdAbCdEfGh" + letter for letter in "ABCDEFGH")


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_is_gone_whatever_carries_it_and_a_second_look_changes_nothing(text, secret):
    done = shared_redactor().redact(text)
    assert secret not in done.text
    assert "[REDACTED:" in done.text
    assert shared_redactor().redact(done.text).text == done.text


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_only_looks_like_a_secret_stays(text):
    assert shared_redactor().redact(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----\n",
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n",
        f"{KEY}\n-----END RSA PRIVATE KEY-----\n",
        f"the key was\n{KEY}\nand so on\n",
    ],
    ids=["whole", "without its end", "without its beginning", "bare"],
)
def test_the_body_of_a_key_is_gone_whole_cut_or_bare_and_lines_keep_their_numbers(text):
    done = shared_redactor().redact(text)
    assert not [line for line in KEY.splitlines() if line in done.text]
    assert done.text.count("\n") == text.count("\n")
    assert done.text.count("[REDACTED:private-key]") == 1


def test_a_finding_says_where_its_marker_stands_and_never_what_was_there():
    text = "grüße\n[REDACTED:token]\nthe password is Tr4ub0dor&9\nDB_PASSWORD=Kd83jskQ!\n"
    done = shared_redactor().redact(text)
    assert [(one.kind, one.line) for one in done.findings] == [("password", 3), ("password", 4)]
    assert {done.text[one.start : one.end] for one in done.findings} == {"[REDACTED:password]"}
    assert "Tr4ub" not in repr(done)
    assert "Kd83" not in repr(done.findings)
    assert done.kinds == ("password",)


def test_json_keeps_its_shape_and_secrets_behind_escapes_are_found():
    document = {
        "source": ["import os\n", 'password = "Kd83!jskQ"\n'],
        "n": 1,
        "log": 'say "hi"\nTOKEN=9dk3kd02kd9slq1mz7\n',
    }
    done = shared_redactor().redact(json.dumps(document))
    after = json.loads(done.text)
    assert list(after) == list(document)
    assert after["source"][0] == "import os\n"
    assert after["source"][1] == 'password = "[REDACTED:password]"\n'
    assert after["log"] == 'say "hi"\nTOKEN=[REDACTED:token]\n'


def test_values_are_redacted_by_their_keys_and_stay_the_same_object_without_a_secret():
    redactor = shared_redactor()
    clean = {"a": ["plain", 1, None], "b": ("x",)}
    assert redactor.fields(clean) is clean
    done = redactor.fields({"password": "Kd83!jskQ", "n": [("the password is Tr4ub0dor&9", 2)]})
    assert done == {"password": "[REDACTED:password]", "n": [("the password is [REDACTED:password]", 2)]}


def test_nothing_passes_when_the_scanner_cannot_be_had_but_harmless_text(monkeypatch):
    def broken(_: object) -> None:
        raise OSError

    monkeypatch.setattr(engine, "scanner", broken)
    redactor = Redactor(None)
    redactor.warm()
    assert redactor.redact("hello world").text == "hello world"
    with pytest.raises(RedactionUnavailable):
        redactor.redact("the password is Tr4ub0dor&9")
    assert not redactor.ready
