"""Words that announce secrets, and beside them what no one would keep secret: each shape with its siblings."""

from __future__ import annotations

import pytest

from tests.support.redactors import shared_redactor

BESIDE_A_WORD = (
    "SHA256 hash of secret-plan.zip:\n9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0927c4415dd80e3b26a5f91c7",
    "sha256 of token-service.tar.gz:\n9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0927c4415dd80e3b26a5f91c7",
    "MD5 checksum of the password file:\n9f2c41ab7d0e8853b6f1c0a94e7725d8",
    "restored from key: Linux-npm-9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0927c4415dd80e3b26a5f91c7",
    "Cache restored from key: Linux-pip-3.12-9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0927c4415dd80e3b26a5f91c7",
    "Cache hit for restore-key: node-modules-macos-9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0",
    "cache saved with the key: build-cache-9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0927c4415dd80e3b26a5f91c7",
    "key: Linux-gradle-9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0927c4415dd80e3b26a5f91c7",
    "secret: projects/4001/secrets/mail-pass/versions/2",
    "secret: projects/my-proj-77/secrets/db-password/versions/latest",
    "token: organizations/88231/locations/eu-west1/keys/app-7",
    "DB_PASSWORD=${DB_PASSWORD:?fill in}",
    ": ${DB_PASSWORD:?fill in}",
    "echo ${DB_PASSWORD:?must be set to 1 value}",
    "API_TOKEN=${API_TOKEN:?Set API_TOKEN in .env2}",
    "      - DB_PASSWORD=${DB_PASSWORD:?fill in}",
    '{"password": "Ctrl+Alt+K"}',
    '"password": "Ctrl+Alt+K",',
    '"showPassword": "Cmd+Shift+P",',
    '"password": "Alt+F4"',
    '"password": "<kbd>F7</kbd>"',
    "<input v-model=\"password\" :type=\"o ? 'text' : 'password'\">",
    '<input v-model="password" :type="show2 ? \'text\' : \'password\'" class="pw-1">',
    "<input [type]=\"hide ? 'password' : 'text'\" x=\"password\">",
    "<input [type]=\"hide ? 'password' : 'text'\" formControlName=\"password\">",
    "<input matInput [(ngModel)]=\"password\" [type]=\"hide1 ? 'password' : 'text'\">",
    '<input type={show ? "text" : "password"} name="password" value={pw} />',
    'read -p "Password: " S; ./go "$$S"',
    "read -s -p 'Password: ' PW1; echo \"$PW1\"",
    'read -rsp "Enter token: " TOKEN2; curl "$URL2"',
    ".btn-key:hover{color:#123456}",
    ".token.keyword{color:#07a4c3}",
    ".password:focus{border:1px solid #a1b2c3}",
    "a.auth-token::after{content:'x1'}",
    ".key:not(.x):hover{color:#12ab56}",
    "[user]\n\tsigningkey = 9C1D7E55B0A4F2E3",
    "\tsigningkey = 9C1D7E55",
    "\tsigningKey = 4F2A9C1D7E55B0A4F2E36B81D90C7A35E81F42BD",
    "GPG_KEY=4F2A9C1D7E55B0A4F2E36B81D90C7A35E81F42BD",
    "ENV GPG_KEY 4F2A9C1D7E55B0A4F2E36B81D90C7A35E81F42BD",
    "ENV GPG_KEYS 4F2A9C1D7E55B0A4F2E36B81D90C7A35E81F42BD DB24F18E53A7C09D18B63E2F4A0B55E7D1C9A2F4",
    "GPG_KEY: 4F2A9C1D7E55B0A4F2E36B81D90C7A35E81F42BD",
    "gpg --recv-keys 4F2A9C1D7E55B0A4F2E36B81D90C7A35E81F42BD",
    "user.signingkey=ABCDEF0123456789",
    "#3  login (password=0x7ffe12345678) at auth.c:88",
    "f (password=0x7ffe12345678)",
    'login (user=0x55d0c8f4e2a0 "mira", password=0x55d0c8f4e2c8)',
    "key=basket-20099881",
    "GET key=cart:user-20099881 hit",
    "cache miss key=session-index-88213",
    "INFO cache get key=basket-20099881 ttl=300",
    'expect(get("Password")).toHaveAttribute("type","password")',
    "expect(screen.getByLabelText('Password')).toHaveAttribute('type', 'text1')",
    "await expect(page.getByLabel('Password')).toHaveValue('')",
    "cy.get('#password').should('have.attr', 'type', 'password')",
    'export PASSWORD=$(cat /run/secrets/pg1)\npsql "postgresql://jo:$PASSWORD@db1:5432/shop"',
    'PASSWORD=$(aws ssm get --name x2)\npsql "postgresql://jo:$PASSWORD@db1:5432/shop"',
    'export PGPASSWORD=$(vault read -field=pw1 db)\npg_dump "postgres://app:$PGPASSWORD@db/shop"',
    '{"scripts": {"password": "node tools/pw.js"}}',
    '{"scripts": {"token": "python3 scripts/gen_token.py --ttl 60", "secrets": "bash ./tools/s3.sh"}}',
    '    "password": "node tools/pw.js",',
    '[project.scripts]\npassword = "tools.password:run"',
    '[project.scripts]\ntoken = "app2.cli.token:main"',
    'token = "tools.cli_v2:main"',
    "  --discovery-token-ca-cert-hash sha256:9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0927c4415dd80e3b26a5f91c7",
    "--discovery-token-ca-cert-hash=sha256:9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0927c4415dd80e3b26a5f91c7",
    "result = sorted(rows, key=len)[-1]",
    "x = max(items, key=str.lower)[0]",
    "sorted(rows, key=itemgetter(1))[:10]",
    "best = sorted(rows, key=score2)[-1]",
    "min(xs, key=abs)[1]",
    "client.put_object(Bucket=bucket1, Key=bucket_key1, Body=data2)",
    "s3.get_object(Bucket=bucket, Key=s3_key2)",
    "s3.put_object(Key=object_key_1, Body=b)",
    "def token(self) -> _MyToken:",
    "def get_password(self) -> _Password2:",
    "def key() -> Curve448PrivateKey:",
    "    token: Bicycle2Token",
    "    key: Curve448PrivateKey | None",
    "    private_key: Ed25519PrivateKey | X25519PrivateKey",
    "def f(private_key: Ed448PrivateKey, data: bytes) -> bytes:",
    "    secret: OAuth2Secret | None = None",
    "non-secret URLs of https2",
    "The non-secret URLs of the 3 services",
    '    "d": to_base64url_uint(x.d),',
    '        "d": to_base64url_uint(numbers.private_value).decode(),',
    "    :rtype: (str,str)",
    "    :return: The token.\n    :rtype: (str,str)",
    '    """Get password.\n\n    :rtype: tuple(str,str2)\n    """',
    "the login. Non-IPv4 hosts",
    "login. Non-IPv4 addresses",
    "if password != confirm:  # pragma: no cover",
    "    if password != confirm2:  # noqa: S105",
    "in format=SomeKeyFormat12",
    "private key in format=PKCS8KeyFormat2",
    '"password"===e.type||e.x2',
    "t.key===l?a:b",
    "e.key===r2?a1:b2",
    "if(e.key===Ot1)return",
    "n.password!==r.password2&&x()",
    "x = 'a'\n# pass = 'S3' \n'^'",
    "var t={key:function(){return e1}}",
    '"text"===t.type||"password"===t.type||"x1"',
    "Heading\n\nRecovery phrase\n\nsome words here",
    "# Recovery phrase\n\nWrite your 12 words down.",
    "## Recovery codes\n\nUse them when 2FA fails.",
    "### Recovery key\n\nKeep it.",
    "TOKEN_RE = re.compile(r'token=([a-z0-9]+)\\s*$')",
    "PASSWORD_RE = r'^(?=.*[A-Z])(?=.*\\d).{8,}$'",
    "password: /^(?=.*[A-Z])(?=.*[0-9]).{8,}$/,",
    "(r'[a-z_]\\w*', Token2, 'root1')",
    "('key', KeyType7, 'Name2'),",
    "secret_classes = ['Secret2Store', 'VaultV2Backend']",
)


@pytest.mark.parametrize("text", BESIDE_A_WORD)
def test_what_stands_beside_a_word_for_secrets_and_is_none_stays(text):
    assert shared_redactor().redact(text + "\n").text == text + "\n"


NEXT_STATEMENTS = (
    ('password = "river7stone9Q"\n"next literal"\n', "next literal"),
    ("# pass = 'S3xk!9qLm'\n'^'\n", "'^'"),
    ('def f():\n    password = "river7stone9Q"\n    "what it does"\n', "what it does"),
    ('x = {\n  "a": 1}\npassword = "river7stone9Q"\n"next literal"\n', "next literal"),
)


@pytest.mark.parametrize(("text", "kept"), NEXT_STATEMENTS)
def test_a_statement_on_the_next_line_is_no_part_of_a_literal(text, kept):
    done = shared_redactor().redact(text).text
    assert "[REDACTED:password]" in done
    assert kept in done


@pytest.mark.parametrize(
    "text",
    [
        'password = ("river7stone9Q"\n    "second7half9Q")\n',
        'char *password = "river7stone9Q"\n    "second7half9Q";\n',
        'password = "river7stone9Q" \\\n"second7half9Q"\n',
        'password = "river7stone9Q" +\n"second7half9Q"\n',
    ],
)
def test_a_literal_that_goes_on_in_the_next_line_goes_with_the_first(text):
    done = shared_redactor().redact(text).text
    assert "river7" not in done
    assert "second7" not in done


def test_of_two_names_and_two_values_the_second_value_is_the_password():
    done = shared_redactor().redact('user, password = "wile", "k4Rz9!vQm2Lx"\n').text
    assert done == 'user, password = "wile", "[REDACTED:password]"\n'


@pytest.mark.parametrize("before", ["", "script:\n  - echo one\n"])
def test_a_command_in_a_list_of_yaml_that_reads_as_a_mapping_stays_yaml(before):
    import yaml

    indent = "  " if before else ""
    text = f'{before}{indent}- curl -H "JOB-TOKEN: glpat-Ab3dEf6hIj9kLmN2pQrS" https://x.example.org/a\n'
    done = shared_redactor().redact(text).text
    assert "glpat" not in done
    assert str(yaml.safe_load(done)).count("[REDACTED:") == 1


@pytest.mark.parametrize("between", [" ", "\n"])
@pytest.mark.parametrize("title", ["Recovery phrase\n\n", "Seed phrase\n", "My backup phrase "])
def test_the_title_of_a_recovery_phrase_is_no_word_of_it(title, between):
    words = ["juice", "opera", "crumble", "skull", "vivid", "exercise"]
    words += ["comfort", "capital", "any", "snow", "copper", "bullet"]
    done = shared_redactor().redact(title + between.join(words) + "\n").text
    assert done.startswith(title + "[REDACTED:seed-phrase]")
    assert not set(words).intersection(done.split())
