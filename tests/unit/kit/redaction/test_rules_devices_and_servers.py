"""Configurations of network devices and servers, and what installers print."""

from __future__ import annotations

import pytest

from tests.support.redactors import shared_redactor

SECRET = "k4Rz9vQm2Lx7"
LINES = [
    "crypto isakmp key {} address 203.0.113.9",
    "enable password 7 {}",
    "line vty 0 4\n password 7 {}\n login",
    " ip ospf message-digest-key 1 md5 7 {}",
    " neighbor 10.0.0.2 password {}",
    "set snmp community {} authorization read-only",
    'secret "$9${}"; ## SECRET-DATA',
    "set wireless psk ENC {}".replace("psk", "psksecret"),
    'createUser tomas SHA "{}" AES "{}"',
    "uri ldap://ldap.example.org\nbinddn cn=proxy,dc=example,dc=org\nbindpw {}",
    'rootdn "cn=Manager,dc=example,dc=org"\nrootpw {}',
    "olcRootPW: {}",
    "rpcuser=node\nrpcpassword={}",
    "# client server secret IP\nmira * {} *",
    "mysql-server mysql-server/root_password password {}",
    "chpasswd:\n  expire: false\n  list: |\n    root:{}\n    ubuntu:{}",
    "  stats auth admin:{}",
    "userlist ops\n  user mira insecure-password {}",
    "user worker on >{} ~jobs:* +@all",
    "10.0.0.1 10.0.0.2 : PSK {}",
    "define( 'NONCE_SALT', '(q5|{}){}' );",
    "6 [Note] [Server] A temporary password is generated for root@localhost: {}",
    "Password for the [elastic] user successfully reset.\nNew value: {}",
    "Please use the following password to proceed to installation:\n\n{}\n",
    "Unseal Key 1: {}",
    "> USER mira\n> PASS {}",
    "ftp -inv nas <<END\nquote USER mira\nquote PASS {}\nEND",
    "mira:{{PLAIN}}{}",
    "a1 LOGIN mira@example.org {}",
    "PASS {}\nNICK mira",
    "/msg NickServ IDENTIFY {}",
    '{{"github-oauth": {{"github.com": "{}"}}}}',
    '{{"type": "random_password", "instances": [{{"attributes": {{"length": 20, "result": "{}"}}}}]}}',
]
HARMLESS = [
    "ntp server 10.0.0.1 key 42",
    "key chain OSPF-KEYS\n key 1\n  accept-lifetime 00:00:00 Jan 1 2026 infinite",
    "crypto isakmp policy 10\n encr aes 256\n authentication pre-share\n group 14",
    "snmp-server community public RO",
    "user default on nopass ~* &* +@all",
    "0 5 * * 1 root /usr/bin/backup2.sh",
    "mira * 10.0.0.5 *",
    "PASS 3 tests\nPASS src/app.test2.js\nFAIL src/b.test.js",
    "--- PASS: TestLogin2 (0.00s)",
    "define('AUTH_KEY', 'put your unique phrase here');",
    "Password for user app2:",
    "Unseal Key (will be hidden):",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_configuration_loses_its_secret_and_keeps_its_words(line):
    text = line.format(*[SECRET] * 2) + "\n"
    done = shared_redactor().redact(text).text
    assert SECRET not in done
    assert done.startswith(text[: text.index(SECRET)].split("$9$")[0].split("(q5")[0])
    assert done.count("\n") == text.count("\n")


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_without_a_secret_stays(line):
    assert shared_redactor().redact(line + "\n").text == line + "\n"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password 2 FAILED_9k/KeyError/'a' ...", "password 2 {} ..."),
        ('enable secret 5 k4Rz"9v"', "enable secret 5 {}"),
        ("password 7 'a'k4Rz9vQm2Lx7", "password 7 {}"),
        ("enable secret 5 'k4Rz9vQm2Lx7';", "enable secret 5 '{}';"),
        ("'enable password 7 k4Rz9vQm2Lx7'", "'enable password 7 {}'"),
    ],
)
def test_a_pair_of_quotes_goes_whole_or_stays(text, kept):
    assert shared_redactor().redact(text).text == kept.format("[REDACTED:password]")


def test_a_key_with_a_number_is_one_of_a_device_where_it_ends_its_line():
    told = "key 2 ERR_PLUGIN_FAILED/KeyError/'a' ... ERR_PLUGIN_CALL//The plugin 'p-key' is off: its code"
    assert shared_redactor().redact(told).text == told
    device = "radius server office\n address ipv4 10.0.0.1\n key 7 070C285F4D06\n"
    assert "070C285F4D06" not in shared_redactor().redact(device).text
