"""Assignments, split literals, lists, markup and command lines."""

from __future__ import annotations

import pytest

from tests.support.redactors import shared_redactor

SECRET = "k4Rz9vQm2Lx7"
SOURCES = [
    'db_pw <- "{}"',
    'var jwtKey = []byte("{}")',
    "password: &dbpass {}",
    'db:\n  password: !!str "{}"',
    "passwords:\n  - {}\n  - 7dK{}",
    'tokens = ["{}Zq81", "{}Wx92"]',
    '[{{"name": "SMTP_PASSWORD", "slotSetting": false, "value": "{}"}}]',
    "<tr><td>Password</td><td>{}</td></tr>",
    "<AutoLogon>\n<Password><Value>{}</Value></Password>\n</AutoLogon>",
    'storePassword "{}"\nkeyPassword "{}"',
    'url = "postgres://app:" + "{}" + "@db.internal/shop"',
    'headers["Authorization"] = "Bearer " + "{}"',
    "PASS={}\nPASS+={}\nexport PASS",
    'db, err := sql.Open("mysql", "app:{}@tcp(10.0.3.4:3306)/shop?parseTime=true")',
    'Const DB_PWD As String = "{}"',
    "UPDATE users SET password = MD5('{}') WHERE id=1;",
    "DB_PASS=${{DB_PASS:-{}}}",
    'export BACKUP_PASSWORD="lantern juniper copper {}"',
    "curl --user mira:{} https://api.example.org/v1/me",
    "curl -sSu mira:{} https://api.example.org/v1/me",
    "xfreerdp /v:10.0.0.8 /u:Administrator /p:{} /cert:ignore",
    "mc alias set minio https://s3.example.org ADMINKEY1 {}",
    "psexec \\\\10.0.0.8 -u admin -p {} cmd",
    "snmpwalk -v3 -u ops -l authPriv -a SHA -A {} -x AES -X {} 10.0.0.1",
    "cryptsetup luksOpen /dev/sdb1 d <<< '{}'",
    "(echo {}; echo {}) | smbpasswd -s -a mira",
    "rsync --password-file=<(echo {}) a rsync://b",
]
HARMLESS = [
    'input[type="password"] { border: 1px solid #a1b2c3; }',
    '<input type="password" id="pw1" name="password" class="form-control-2">',
    "securitySchemes:\n  bearer:\n    type: http\n    scheme: bearer\n    bearerFormat: JWT",
    '{"login": "Anmelden", "password": "Passwort", "forgot_password": "Passwort vergessen?"}',
    'password: "Contraseña"\nsecret_key: "Clave secreta"',
    "CREATE TABLE users (\n  password varchar(255) NOT NULL,\n  api_token CHAR(64) DEFAULT NULL\n);",
    "login(email: String!, password: String!): AuthPayload!",
    "tokens:\n  - access\n  - refresh",
    "passwords:\n  - min_length: 8\n  - max_age: 90d",
    "secrets:\n  - source: app-secret-v2\n    target: /run/secrets/app",
    "<tr><td>Password</td><td>Required, min. 8 characters</td></tr>",
    "DB_PASS=${DB_PASS:-$FALLBACK2}",
    "password = $db_password2",
    "PASS=`cat pw2.txt`",
    "CACHE_KEY=9f86d081884c7d659a2feaa0c55ad015",
    "label.password=Passwort*",
    "vault login -method=oidc role=dev2",
    'grep -c x1 <<< "$line2"',
    "curl -b cookies2.txt https://x.example.org",
    "7z x -oout2 a.7z",
]


@pytest.mark.parametrize("source", SOURCES)
def test_a_secret_in_source_or_on_a_command_line_is_gone(source):
    text = source.format(*[SECRET] * 2) + "\n"
    done = shared_redactor().redact(text).text
    assert SECRET not in done
    assert "[REDACTED:" in done
    assert done.count("\n") == text.count("\n")


@pytest.mark.parametrize("source", HARMLESS)
def test_source_without_a_secret_stays(source):
    assert shared_redactor().redact(source + "\n").text == source + "\n"
