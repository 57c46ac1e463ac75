"""What people write to each other without a verb, in answers, and in other languages."""

from __future__ import annotations

import pytest

from tests.support.redactors import shared_redactor

SECRET = "k4Rz9!vQm2Lx7"
TALK = [
    "ssh ops@10.0.0.4 (pw {})",
    "You can get in as root (password {}).",
    "For the router, set PSK to {}",
    "The password should be {} unless Tom rotated it.",
    "*User:* mira\n*Password:* {}",
    "creds: admin / {}",
    "log in with admin / {} at https://grafana.example.org",
    "wifi: Werkstatt, key {}",
    "changed the ldap bind pw, it's {} now",
    "Q: what was the vpn password again?\nA: {}",
    "password has been changed from Kz83!jsQ2p to {}",
    "Customer logged in with user `report` and pass `{}`",
    "I encrypted the file with {} as password.",
    "New API token handed to the customer: `{}`",
    "h3. Access\n||User||Password||\n|mira|{}|",
    "WLAN Passwort {}",
    "Kennwort für den Drucker {}",
    "Das Kennwort wurde auf {} zurückgesetzt.",
    "Bitte melde dich mit dem Benutzer admin und dem Passwort „{}“ an.",
    "Kannst du dich mit {} einloggen?",
    "パスワード {}",
    "DBのパスワード変わりました → {}",
    "パスワードは以下の通りです。\n{}",
    "密码 {}",
    "账号密码：admin {}",
    "登录信息：admin/{}",
    "Mot de passe provisoire : {}",
    "<p>Your password is <b>{}</b></p>",
]
CODES = [
    "PIN for the SIM: 710756",
    "the code for the gate is 257286",
    "暗証番号は556449です",
    "Zugangscode Keller: 934611",
]
HARMLESS = [
    "The password is case-sensitive.",
    "password is base64-encoded",
    "The password policy was changed to NIST800-63B last year.",
    "What's the password policy?\nSee page ISO-27001 of the wiki.",
    "We switched the token format from JWT to PASETO-v4.",
    "login with OAuth2/OIDC",
    "creds: see 1Password / Bitwarden",
    "try Python3.11 if the login fails",
    "Kennwort vergessen? Ticket IT-48211 aufmachen.",
    "Das Passwort wird mit Argon2id gehasht.",
    "Passwort ändern",
    "パスワードはSHA-256でハッシュ化されます。",
    "密码使用AES-256加密存储。",
    "使用GitHub账号登录",
    "Your PIN will arrive in 2-3 days.",
    "Invalid token at position 4711: 'x1y2z3'",
    ":param password: ident2",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db/password-MYZ6zI",
]


@pytest.mark.parametrize("talk", TALK)
def test_a_password_that_is_said_in_passing_is_gone_and_the_talk_stays(talk):
    done = shared_redactor().redact(talk.format(SECRET) + "\n").text
    before, after = talk.format("\0").split("\0")
    assert SECRET not in done
    assert done.startswith(before.split("Kz83")[0])
    assert done.endswith(after + "\n")


@pytest.mark.parametrize("talk", CODES)
def test_a_code_of_digits_is_gone_when_it_is_called_one(talk):
    assert "[REDACTED:pin]" in shared_redactor().redact(talk + "\n").text


@pytest.mark.parametrize("talk", HARMLESS)
def test_talk_about_passwords_stays(talk):
    assert shared_redactor().redact(talk + "\n").text == talk + "\n"
