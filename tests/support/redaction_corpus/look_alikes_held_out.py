"""Texts without a secret that look like one: the half that no rule is made with."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.redaction_corpus.sample import Template

LOOK_ALIKES: Mapping[str, tuple[Template, ...]] = {
    "git-hash": (
        Template("Merge: ⟪hex7⟫ ⟪hex7⟫\nSigned-off-by: Jon <jon@example.com>\n"),
        Template("index ⟪hex7⟫..⟪hex7⟫ 100644\n--- a/auth/token.py\n+++ b/auth/token.py\n"),
        Template('pip install "git+https://git.example.com/team/app@⟪hex40⟫"\n'),
        Template("Subproject commit ⟪hex40⟫\n"),
        Template("GIT_COMMIT=⟪hex40⟫\nBUILD_ID=4711\n", "env"),
        Template('nixpkgs.url = "github:NixOS/nixpkgs/⟪hex40⟫";\n'),
    ),
    "checksum": (
        Template("Filename: pool/main/a/app.deb\nSize: 48211\nSHA256: ⟪hex64⟫\nSHA1: ⟪hex40⟫\n"),
        Template('<script src="/app.js" integrity="sha384-⟪b64-48⟫" crossorigin="anonymous"></script>\n'),
        Template("app.a1b2c3d4.js  app.⟪hex20⟫.css  fonts.⟪hex20⟫.woff2\n"),
        Template('sha256 "⟪hex64⟫"\nlicense "MIT"\n'),
        Template('  "etag": "W/\\"⟪hex40⟫\\"",\n'),
        Template("cache key: linux-pip-⟪hex64⟫ (restored)\n"),
        Template("Layer ⟪hex12⟫: Already exists\nLayer ⟪hex12⟫: Pull complete\n"),
        Template("blake2b: ⟪hex128⟫\ncrc32: 8c736521\n", "yaml"),
        Template("RUN echo '⟪hex64⟫  /tmp/go.tgz' | sha256sum -c -\n"),
        Template("snapshot_hash = '⟪hex64⟫'\nfingerprint = '⟪hex32⟫'\n"),
    ),
    "uuid": (
        Template("INSERT INTO orders (id, customer_id) VALUES ('⟪uuid⟫', '⟪uuid⟫');\n"),
        Template("GET /v1/sessions/⟪uuid⟫/events 200 18ms\n"),
        Template("correlation-id: ⟪uuid⟫\nidempotency-key: ⟪uuid⟫\n"),
        Template("<ProjectGuid>{⟪uuid⟫}</ProjectGuid>\n", "xml"),
        Template("client_id: ⟪uuid⟫\ntenant_id: ⟪uuid⟫\n", "yaml"),
        Template("traceparent: 00-⟪hex32⟫-⟪hex16⟫-01\n"),
    ),
    "lock-file": (
        Template(
            '{\n  "_meta": {\n    "hash": {"sha256": "⟪hex64⟫"},\n    "pipfile-spec": 6\n  },\n  "default": {"idna": {"hashes": ["sha256:⟪hex64⟫"]}}\n}\n',
            "json",
        ),
        Template('"node_modules/jsonwebtoken": {"version": "9.0.2", "integrity": "sha512-⟪b64-64⟫"}\n'),
        Template("packages:\n  bcrypt-password@1.0.0:\n    resolution: {integrity: sha512-⟪b64-64⟫}\n", "yaml"),
        Template(
            'sdist = { url = "https://files.example.com/secrets-1.0.tar.gz", hash = "sha256:⟪hex64⟫", size = 14403 }\n',
            "toml",
        ),
        Template(
            'provider "registry.example.com/hashicorp/random" {\n  version = "3.6.3"\n  hashes = [\n    "h1:⟪b64-32⟫",\n    "zh:⟪hex64⟫",\n  ]\n}\n'
        ),
        Template("PODFILE CHECKSUM: ⟪hex40⟫\n\nCOCOAPODS: 1.16.2\n"),
        Template('"narHash": "sha256-⟪b64-32⟫",\n"rev": "⟪hex40⟫",\n'),
        Template("GEM\n  specs:\n    devise (4.9.4)\nCHECKSUMS\n  devise (4.9.4) sha256=⟪hex64⟫\n"),
    ),
    "placeholder": (
        Template("POSTGRES_PASSWORD=example\nPOSTGRES_USER=postgres\n", "env"),
        Template("    'password': 'REPLACE_ME',\n    'token': 'insert-token-here',\n"),
        Template("Authorization: Bearer <token>\n"),
        Template("Authorization: Bearer $TOKEN\nX-Api-Key: {api_key}\n"),
        Template("password: !vault |\n  see group_vars\n"),
        Template('secret: "{{ .Values.auth.secret }}"\n', "yaml"),
        Template("--password=$(cat /run/secrets/db)\n"),
        Template("GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", "env"),
        Template('api_key = "your_api_key"\nclient_secret = "<client secret>"\n', "toml"),
        Template("STRIPE_SECRET_KEY=sk_test_...\nSTRIPE_WEBHOOK_SECRET=whsec_...\n", "env"),
        Template("mongodb://<username>:<password>@<host>/<db>\n"),
        Template("jdbc:postgresql://localhost/test?user=test&password=test\n"),
        Template("docker run -e MYSQL_ROOT_PASSWORD=my-secret-pw -d mysql:8\n"),
        Template("MINIO_ROOT_USER=minioadmin MINIO_ROOT_PASSWORD=minioadmin minio server /data\n"),
        Template("password: %{DB_PASSWORD}\ntoken: @@TOKEN@@\nsecret: [hidden]\n"),
        Template("password: [REDACTED]\ntoken: (redacted)\napi_key: <hidden>\n"),
        Template("key: <base64-encoded private key>\n"),
        Template('curl -H "Authorization: token OAUTH-TOKEN" https://api.example.com\n'),
        Template('passwort = "geheim"  # Beispiel\n'),
        Template("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n"),
    ),
    "code-about-secrets": (
        Template("self.password = password\nself._token = token or self._load_token()\n"),
        Template("const { password, ...rest } = user;\n"),
        Template("if not check_password_hash(user.password, form.password.data):\n    abort(401)\n"),
        Template("export interface LoginRequest { username: string; password: string; }\n"),
        Template('let token = std::env::var("API_TOKEN").expect("API_TOKEN is set");\n'),
        Template("assert response.json()['token'] == expected_token\n"),
        Template(
            'secret_name = "prod/db"\nsecret = boto3.client("secretsmanager").get_secret_value(SecretId=secret_name)\n'
        ),
        Template('private static final String PASSWORD_FIELD = "password";\n'),
        Template("label: 'Password', type: 'password', autocomplete: 'current-password'\n"),
        Template("ALTER TABLE users ADD COLUMN password_reset_token_sent_at timestamptz;\n"),
        Template('throw new InvalidTokenException("token expired");\n'),
        Template("logger.info('password changed for %s', user.id)\n"),
        Template("api_key: Annotated[str, Header()] = Depends(get_api_key)\n"),
        Template("passwordEncoder = new BCryptPasswordEncoder(12);\n"),
        Template("for key, secret_value in sorted(secrets.items()):\n    redact(secret_value)\n"),
        Template('resource "random_password" "db" {\n  length  = 24\n  special = true\n}\n'),
        Template('password = var.db_password\ntoken    = data.vault_generic_secret.api.data["token"]\n'),
        Template("@pytest.fixture\ndef token(client):\n    return client.post('/token').json()['access_token']\n"),
        Template("credentials: 'include', mode: 'cors', cache: 'no-store'\n"),
        Template("Token::Identifier => self.parse_identifier(), Token::Number => self.parse_number(),\n"),
        Template("      PASSWORD: ${{ secrets.DB_PASSWORD }}\n      token: ${{ github.token }}\n"),
        Template('sort_key = lambda row: row.created\npartition_key = "customer"\nkeyboard = "qwertz"\n'),
        Template("env:\n  - name: DB_PASSWORD\n    valueFrom: {secretKeyRef: {name: db, key: password}}\n", "yaml"),
        Template('password_min_length = 12\npassword_expiry_days = 90\npassword_policy = "strict"\n', "toml"),
    ),
    "prose-about-secrets": (
        Template("Please choose a password that you do not use elsewhere.\n"),
        Template("The password for the archive was sent in a separate letter.\n"),
        Template("We rotate the signing key every ninety days; the token itself lives for an hour.\n"),
        Template("Wrong password: permission denied, please try again.\n"),
        Template("Is the password case-sensitive? Yes, the password is always case-sensitive.\n"),
        Template("The secret is that there is no secret.\n"),
        Template("Das Kennwort ist zu kurz. Bitte wählen Sie ein längeres.\n"),
        Template("Das Passwort lautet bei jedem Kunden anders und steht im Brief.\n"),
        Template("Der Schlüssel ist eindeutig und wird von der Datenbank vergeben.\n"),
        Template("パスワードを忘れた場合は、管理者に連絡してください。\n"),
        Template("パスワードは定期的に変更する必要があります。\n"),
        Template("忘记密码?请点击此处重置。\n"),
        Template("密码错误,请重新输入。\n"),
        Template("请输入您的密码:\n"),
        Template("A private key begins with a BEGIN line and ends with an END line.\n"),
        Template("- [ ] password: ask Jon\n- [ ] token: see the vault\n"),
        Template("Authentication: Bearer tokens are supported, Basic authentication is deprecated.\n"),
    ),
    "public-key": (
        Template(
            "-----BEGIN CERTIFICATE REQUEST-----\nMIICijCCAXICAQAwRTELMAkG⟪b64-24⟫\n⟪b64-lines⟫\n-----END CERTIFICATE REQUEST-----\n"
        ),
        Template(
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBGVk⟪b64-24⟫\n⟪b64-lines⟫\n=aB3d\n-----END PGP PUBLIC KEY BLOCK-----\n"
        ),
        Template(
            "-----BEGIN PGP SIGNATURE-----\n\niQIzBAABCgAdFiEE⟪b64-24⟫\n⟪b64-lines⟫\n-----END PGP SIGNATURE-----\n"
        ),
        Template("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ⟪b64-256⟫ ops@build\n"),
        Template("[Peer]\nPublicKey = ⟪b64-32⟫\nAllowedIPs = 10.8.0.0/24\n"),
        Template("    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk⟪b64-256⟫\n", "yaml"),
        Template("v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQ⟪b64-128⟫\n"),
        Template(
            "Public-Key: (2048 bit)\nModulus:\n    00:bb:3e:1a:9f:40:7c:11:8d:22:e0:5a:61:f3:07:\nExponent: 65537 (0x10001)\n"
        ),
        Template("age1⟪bech58⟫\n"),
        Template("stripe publishable key: pk_live_⟪alnum24⟫\n"),
    ),
    "base64-content": (
        Template('<img alt="" src="data:image/jpeg;base64,/9j/4AAQSkZJRgABAQ⟪b64-256⟫">\n'),
        Template(
            '{"data": {"image/png": "iVBORw0KGgoAAAANSUhEUgAA⟪b64-256⟫"}, "metadata": {}, "output_type": "display_data"}\n',
            "json",
        ),
        Template(
            "background: url('data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=');\n"
        ),
        Template("AAAAIGZ0eXBpc29tAAACAGlzb21pc28yYXZjMW1wNDE⟪b64-128⟫\n"),
        Template("UEsDBBQAAAAIA⟪b64-128⟫\n"),
        Template("aGVsbG8gd29ybGQsIHRoaXMgaXMgYSBncmVldGluZw==\n"),
        Template('"mappings": "AAAA,SAASA,EAAEC,GAAG,OAAOA,EAAEC,KAAKC,IAAI,SAASC,GAAG,MAAO"\n'),
    ),
    "identifier": (
        Template("spreadsheet 1⟪alnum43⟫ shared with the team\n"),
        Template("https://www.example.com/watch?v=⟪alnum11⟫&t=42s\n"),
        Template("VIN WVWZZZ1JZXW000001, ISBN 0-306-40615-2, ISSN 2049-3630\n"),
        Template("projects/tidewater-prod/locations/europe-west1/keyRings/main/cryptoKeys/disk/cryptoKeyVersions/3\n"),
        Template("arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf\n"),
        Template("pod/sync-worker-7d9c6b8f5d-x2x4q   1/1   Running   0   4d\n"),
        Template("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq 0x742d35Cc6634C0532925a3b844Bc454e4438f44e\n"),
        Template("s3://tidewater-backups/2026/03/04/⟪uuid⟫/part-00017.snappy.parquet\n"),
        Template("AKIAIOSFODNN7EXAMPLE is the example key of the documentation.\n"),
        Template("cus_⟪alnum14⟫ price_1⟪alnum23⟫ evt_1⟪alnum23⟫\n"),
        Template("run-20260304-110251-⟪lower6⟫ offline-run wandb\n"),
        Template("kernel-⟪uuid⟫.json\nnbconvert -> out.ipynb\n"),
        Template("user_pool_id = eu-west-1_⟪alnum9⟫\n"),
    ),
    "dump": (
        Template("48 89 e5 48 83 ec 10 89 7d fc 8b 45 fc 0f af c0 c9 c3\n"),
        Template("   at Example.Auth.TokenService.Refresh(String token) in /src/Auth/TokenService.cs:line 88\n"),
        Template("panic: runtime error\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:14 +0x1d\n"),
        Template("var a=[0x5f3759df,0xdeadbeef,0xcafebabe,0x9e3779b9],k=a.map(function(b){return b>>>1});\n"),
        Template(".css-1q2w3e4r5t{color:#3f51b5}.MuiButton-root-⟪digits6⟫{padding:6px}\n"),
        Template("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQVKVKALPDAQFEVVHSLAKWKR\n"),
        Template("rgb: 1a2b3c 4d5e6f 778899 aabbcc ddeeff 001122 334455\n"),
        Template("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899\n"),
        Template("\\u30d1\\u30b9\\u30ef\\u30fc\\u30c9\\u306e\\u5909\\u66f4\n"),
    ),
    "test-vector": (
        Template(
            'PBKDF2: P = "password", S = "salt", c = 4096, dkLen = 20, DK = 4b007901b765489abead49d926f721d065a429c1\n'
        ),
        Template("sha256('') == 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'\n"),
        Template(
            "AES-128 FIPS-197: plaintext 00112233445566778899aabbccddeeff ciphertext 69c4e0d86a7b0430d8cdb78070b4c55a\n"
        ),
    ),
    "plain-url": (
        Template("https://example.com:8443/a/b;v=1?x=1&y=2#frag\n"),
        Template("git clone https://mira@git.example.com/team/app.git\n"),
        Template("See https://docs.example.com/guides/api-keys#rotate-a-secret-key-without-downtime\n"),
        Template("postgresql:///shop?host=/var/run/postgresql\n"),
        Template("https://t.example.com/c?utm_source=newsletter&utm_campaign=spring_2026&gclid=none\n"),
        Template("oci://registry.example.com/agents/reviewer@sha256:⟪hex64⟫\n"),
        Template("time=10:15:42@node-3 user:mira@host:/srv/app\n"),
    ),
    "command-line": (
        Template("ps -p 4711 -o pid,cmd\n"),
        Template("mysql -uroot --port=3306 --protocol=tcp -e 'show databases'\n"),
        Template("read -s -p 'Password: ' PASSWORD\n"),
        Template("curl -u \"$USER:$TOKEN\" -o /dev/null -w '%{http_code}' https://example.com\n"),
        Template("sshpass -f /run/secrets/pass ssh ops@box\n"),
        Template("gh auth login --with-token < token.txt\n"),
        Template("openssl rand -hex 32 > secret.key && chmod 600 secret.key\n"),
        Template("passwd mira\npasswd: password updated successfully\n"),
        Template("vault kv get -field=password secret/db\n"),
        Template('unzip -P "$ZIP_PASSWORD" archive.zip -d out\n'),
        Template("adduser --disabled-password --gecos '' agent\n"),
        Template("nmap -p1-1024 -Pn 10.0.0.0/24; lsof -p1234; grep -pattern\n"),
    ),
    "ordinary-words": (
        Template("The quick brown fox jumps over the lazy dog while twelve silent judges watch from above\n"),
        Template("apple banana cherry dog eagle fish grape house island jungle kitchen lemon\n"),
        Template("key: C major, signature 4/4, tempo 120\n", "yaml"),
        Template("pass the salt, please; pass: 14, fail: 2, skip: 1\n"),
        Template("Token | Meaning\n------|--------\nNUMBER | digits\nSTRING | quoted text\n"),
        Template("Authorization was granted by the committee on 4 March 2026.\n"),
        Template("secret santa: Mira -> Jon, Jon -> Noa, Noa -> Mira\n"),
        Template("PIN headers: 40, pitch 2.54 mm; PIN 13 is the LED\n"),
    ),
    "version": (
        Template("Python 3.12.7 (main, Oct 1 2024, 11:15:50) [GCC 12.2.0] on linux\n"),
        Template("libssl3t64 3.0.15-1~deb12u1+b2 amd64, kernel 6.8.0-1021-aws #23~22.04.1-Ubuntu\n"),
        Template("v1.64.0-rc.3+build.20260304.sha.⟪hex7⟫\n"),
    ),
}
"""Each kind's templates."""
