"""Files of programs, tables, translations and changes without any secret: what is said over several lines."""

import pytest

from tests.support.redactors import shared_redactor

WITHOUT_SECRETS = (
    '{\n "cells": [\n  {\n   "cell_type": "code",\n   "source": ["password = getpass.getpass(\\"Password: \\")\\n", "token = os.environ[\\"TOKEN2\\"]"]\n  }\n ]\n}',  # noqa: E501
    '{\n "cells": [{"cell_type": "markdown", "source": ["Set `API_KEY` first, see step 3.\\n"]}]\n}',
    "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD_FILE: /run/secrets/pg2\n    secrets: [pg2]\nsecrets:\n  pg2:\n    file: ./pg2.txt",  # noqa: E501
    "env:\n  TOKEN: ${{ secrets.GITHUB_TOKEN }}\n  NPM_TOKEN: ${{ secrets.NPM_TOKEN2 }}",
    "      - name: Login\n        uses: docker/login-action@v3\n        with:\n          username: ${{ github.actor }}\n          password: ${{ secrets.GITHUB_TOKEN }}",  # noqa: E501
    "        key: ${{ runner.os }}-pip-${{ hashFiles('**/requirements.txt') }}",
    '          key: v2-deps-{{ checksum "package-lock.json" }}',
    'variable "db_password" {\n  type      = string\n  sensitive = true\n}',
    "  + password = (sensitive value)\n  + master_password = (known after apply)",
    '  # random_password.db will be created\n  + resource "random_password" "db2" {\n      + length  = 24\n      + special = true\n      + result  = (sensitive value)\n    }',  # noqa: E501
    "password = random_password.db2.result",
    'password = data.vault_generic_secret.db.data["password2"]',
    "password = module.db2.password",
    "password: {{ .Values.db.password | quote }}",
    '  password: {{ include "shop2.password" . | b64enc | quote }}',
    'token: !Sub "{{resolve:secretsmanager:${Secret2}:SecretString:token}}"',
    "Password: !Ref DbPassword2",
    '  MasterUserPassword: "{{resolve:ssm-secure:db-password2:1}}"',
    '"password": {"Ref": "DbPassword2"}',
    "CREATE TABLE users2 (id int, password_hash char(60), token varchar(64), api_key uuid DEFAULT gen_random_uuid());",
    "ALTER TABLE users ADD COLUMN reset_token2 TEXT;",
    "CREATE INDEX idx_token2 ON sessions (token);",
    "SELECT id, token, secret FROM t2 WHERE password IS NOT NULL;",
    "UPDATE users SET password = $1, token2 = $2 WHERE id = $3",
    "INSERT INTO users (name, password) VALUES (?, ?);",
    "INSERT INTO users (name, password) VALUES (:name2, :password2);",
    'cursor.execute("SELECT 1 FROM users WHERE password=%s", (pw2,))',
    "components:\n  securitySchemes:\n    apiKey2:\n      type: apiKey\n      name: X-API-Key\n      in: header",
    '    password:\n      type: string\n      format: password\n      minLength: 8\n      example: "********"',
    "    token:\n      type: string\n      description: OAuth2 access token, see RFC6749",
    "message Login2 {\n  string user = 1;\n  string password = 2;\n  bytes token = 3;\n}",
    "input Login2 { user: String!, password: String! @constraint(minLength: 8) }",
    'mutation($p: String!) { login(user: "mira2", password: $p) { token } }',
    '{"login": {"title": "Anmelden", "password": "Passwort (mind. 8 Zeichen)", "forgot": "Passwort vergessen?"}}',
    '{"password": "Mot de passe (8 caractères min.)", "token": "Jeton n° 1"}',
    '{"password": "パスワード（8文字以上）", "token": "トークン2"}',
    '{"password.label": "Contraseña nueva", "password.confirm": "Repetir contraseña (2/2)"}',
    'msgid "Password must have %d characters"\nmsgstr "Passwort braucht %d Zeichen"',
    "login.password=Passwort\nlogin.token=Sicherheitscode (6-stellig)",
    '<string name="password_hint">At least 8 characters, 1 digit</string>',
    '<string name="token2">Token (optional)</string>',
    '"NSFaceIDUsageDescription" = "Unlock your passwords2.";',
    "<key>NSPasswordAutoFill2</key>\n<string>YES</string>",
    '<property name="password" value="${db.password}"/>',
    '<property name="hibernate.connection.password">${env.DB_PW2}</property>',
    "<password>{{ db_password2 }}</password>",
    '<add key="ApiKey" value="#{ApiKey2}#" />',
    '<input name="csrf_token" type="hidden" value="{{ csrf_token }}">',
    "<button onclick=\"copyKey('key2')\">Copy key</button>",
    "<td>Password</td><td>8-64 characters, case-sensitive</td>",
    "| Option | Default | Description |\n|---|---|---|\n| `password` | `null` | Password for user2 |\n| `token` | *required* | API token, v2 |",  # noqa: E501
    "| password | string | yes | at least 8 chars |\n| token | string | no | JWT (RFC7519) |",
    '* `password` (str, optional): Password for HTTP basic auth, e.g. ``"secret"``.',
    ":param token: The token (v2) to be used.\n:type token: str",
    "@param password the password (max. 64 chars)\n@return token2",
    "--password PASSWORD   password for user (default: $PGPASSWORD)",
    '  -p, --password string   Password (stdin if "-")',
    "  --token TOKEN         API token [env: API_TOKEN2=]",
    "usage: tool2 [-h] [--password PASSWORD] [--key KEY2]",
    "error: option --password requires an argument2",
    "ValueError: Invalid password for user2: too short (5 < 8)",
    "KeyError: 'password2'",
    "TypeError: login() missing 1 required positional argument: 'password'",
    "AttributeError: 'Token2' object has no attribute 'secret'",
    'psycopg2.OperationalError: FATAL:  password authentication failed for user "app2"',
    "fe_sendauth: no password supplied (host=db2 port=5432)",
    "ERROR 1045 (28000): Access denied for user 'root2'@'localhost' (using password: YES)",
    "redis.exceptions.AuthenticationError: WRONGPASS invalid username-password pair or user is disabled.",
    "botocore.exceptions.ClientError: An error occurred (InvalidClientTokenId) when calling the GetCallerIdentity operation: The security token included in the request is invalid.",  # noqa: E501
    '401 Unauthorized: {"error":"invalid_token","error_description":"Token expired at 2024-05-01T10:00:00Z"}',
    'level=warn msg="token expires soon" expires_in=86400 token_id=4711',
    'ts=2024-05-01T10:00:00Z caller=auth2.go:88 msg="password changed" user=mira2',
    "auth: token cache hit ratio=0.97 size=1204",
    "DEBUG auth key=user:42:perm ttl=300",
    'INFO  lock acquired key="invoice-2024-05-0042" by worker-3',
    'WARN secret "prod/db2" rotated 93 days ago',
    "secret/data/shop2 v7 created 2024-05-01T10:00:00Z",
    'secret "regcred2" deleted',
    "secret/app-config2 created",
    "NAME           TYPE     DATA   AGE\ndb-password2   Opaque   2      14d",
    "Mounts:\n  /run/secrets/token2 from kube-api-access-x7k2p (ro)",
    "  TokenExpirationSeconds:  3607",
    "tolerations:\n- key: node-role.kubernetes.io/control-plane2\n  effect: NoSchedule",
    "matchExpressions:\n- {key: app2, operator: In, values: [web2]}",
    "configMapKeyRef: {name: cfg2, key: log-level}",
    '- "9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0"\n+ "0eafb6318d5277e49a0c1f6b3588e0d7ba14c2f9"',
    "key: 9f2c41ab7d0e8853b6f1c0a94e7725d8136bfae0\nrestore-keys: |\n  Linux-npm-",
    "diff --git a/token2.py b/token2.py\nindex 1a2b3c4..5d6e7f8 100644\n--- a/token2.py\n+++ b/token2.py\n@@ -12,7 +12,7 @@ def token2():",  # noqa: E501
    "-    password = get_password(user)\n+    password = get_password2(user, realm)",
    'exports[`renders password 1`] = `\n<input\n  type="password"\n  name="pw2"\n/>\n`;',
    "user,password,token\n,,\n",
    "id;login;password_changed_at\n1;mira;2024-05-01\n2;jon;2023-11-12",
    "name,key,value2\nalpha,k1,12\nbeta,k2,13",
    "## 2.4.0\n- Add `--token-file`2 (#4711)\n- Fix password prompt on Windows 11 (#4712)",
    "- Passwords: use Argon2id (m=64MiB, t=3, p=4)",
    "TODO: rotate the key by 2025-01-31 (see JIRA-4711)",
    "Ticket SEC-1204: reset token lifetime is 15min instead of 10min",
    "See RFC 7519 for JWT, RFC 6238 for TOTP and FIPS 186-5 for keys.",
    "The token bucket holds 100 tokens and refills at 10/s.",
    "We sign with key v3 since release 2024.05.",
    "Our key result Q3: NPS >= 45.",
    "The password is hashed with bcrypt (cost 12) before it is stored.",
    "Passwords are compared with hmac.compare_digest().",
    "The secret lies in step 3: whip the eggs for 10min.",
    "Token = unit of text (~4 chars).",
    "Set password = None to disable login2.",
    "Use key=len to sort by length, key=str.lower otherwise.",
    'The password is "password123" in every demo2 we have seen.',
    "Default credentials are admin/admin, change them.",
    "Login with demo/demo or guest/guest.",
    "You can log in as user1 / user1 on the test system.",
    "Das Passwort wird mit Argon2id gehasht (m=64MiB).",
    "Der Schlüssel liegt bei Zimmer 2.04, Haken 7.",
    "Token läuft nach 3600s ab.",
    "パスワードの有効期限は90日です。",
    "APIキーは設定画面 > 開発者 v2 から発行できます。",
    "鍵は3階の302号室にあります。",
    "钥匙在3号楼302室。",
    "密码每90天更换一次，上次更新：2024-05-01。",
    "令牌将在3600s后过期。",
    "Пароль должен содержать 8+ символов.",
    "export const selectToken2 = (s: State) => s.auth.token;",
    'const tokenKey = Symbol("token2");',
    'const KEY = "cart_v2";',
    'const STORAGE_KEY = "shop.settings.v2";',
    'const QUERY_KEY = ["orders", page2];',
    'const CACHE_KEY_PREFIX = "user:profile:v2:";',
    'export const AUTH_TOKEN_KEY = "auth_token_v2";',
    'TOKEN_URL = "https://auth.example.org/oauth2/token"',
    'SECRET_NAME = "prod/shop/db-v2"',
    'PASSWORD_FIELD = "user_password2"',
    'API_KEY_HEADER = "X-Api-Key-V2"',
    'SESSION_KEY = "session:v2:user"',
    'PRIVATE_KEY_PATH = "/etc/ssl/private/site2.key"',
    "self.token = token2 or self._read_token()",
    'self._password = kwargs.pop("password2", None)',
    "token = self.tokenizer.next_token(pos2)",
    "assert token.type == TokenType.NUMBER2",
    "if tok.kind == Kind2.STRING: return tok.value",
    'expect(token).toEqual({ type: "ident", value: "x2" })',
    "expect(lexer.next()).toBe(Token.PLUS2);",
    "case Token::Ident2(ref name) => name.len(),",
    "yield Token(kind2, value, line, col)",
    'Token(type="NUMBER", value="42", pos=(1, 2))',
    '{ token: "keyword.control2", regex: "\\\\b(?:if|else)\\\\b" }',
    '"tokenColors": [{"scope": "string2", "settings": {"foreground": "#12ab34"}}]',
    'keyword_map = {"KEY2": 12, "PASS": 13}',
    "pass_rate = 0.97; bypass2 = True",
    "compass: heading=270deg; passenger_id=AB12CD",
    "passed=12 failed=0 skipped=1 key_error=0",
    "monkey2 = turkey + hockey",
    "keyboard: us-intl2; keypad: on",
)


@pytest.mark.parametrize("text", WITHOUT_SECRETS)
def test_a_structure_without_secrets_stays(text):
    assert shared_redactor().redact(text + "\n").text == text + "\n"


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
