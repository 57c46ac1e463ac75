"""Texts without a secret that look like one: the training half."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.redaction_corpus.sample import Template

LOOK_ALIKES: Mapping[str, tuple[Template, ...]] = {
    "git-hash": (
        Template(
            "commit ⟪hex40⟫\nAuthor: Mira <mira@example.com>\nDate:   Wed Mar 4 11:02:51 2026 +0000\n\n    Keep tokens out of logs\n"
        ),
        Template("   ⟪hex7⟫..⟪hex7⟫  main -> main\n"),
        Template("FROM registry.example.com/app@sha256:⟪hex64⟫\n"),
        Template("-  rev: ⟪hex40⟫\n+  rev: ⟪hex40⟫\n"),
        Template("uses: actions/checkout@⟪hex40⟫ # v4.2.2\n"),
    ),
    "checksum": (
        Template("⟪hex64⟫  dist/app-1.4.2.tar.gz\n⟪hex64⟫  dist/app-1.4.2-py3-none-any.whl\n"),
        Template('ETag: "⟪hex32⟫"\nContent-MD5: ⟪b64-16⟫\n'),
        Template("MD5 (dump.sql) = ⟪hex32⟫\n"),
        Template('{"sha512": "⟪hex128⟫", "size": 48211}\n', "json"),
        Template('expected_digest = "⟪hex64⟫"\nassert hashlib.sha256(data).hexdigest() == expected_digest\n'),
        Template("Digest: sha256:⟪hex64⟫\nStatus: Image is up to date for alpine:3.20\n"),
    ),
    "uuid": (
        Template('{"request_id": "⟪uuid⟫", "tenant": "⟪uuid⟫"}\n', "json"),
        Template("UUID=⟪uuid⟫ / ext4 defaults 0 1\n"),
        Template("metadata:\n  uid: ⟪uuid⟫\n  resourceVersion: '48211734'\n", "yaml"),
        Template("2026-03-04T11:02:51Z INFO trace=⟪hex32⟫ span=⟪hex16⟫ took 14 ms\n"),
    ),
    "lock-file": (
        Template(
            '    "node_modules/left-pad": {\n      "version": "1.3.0",\n      "resolved": "https://npm.example.com/left-pad/-/left-pad-1.3.0.tgz",\n      "integrity": "sha512-⟪b64-64⟫"\n    }\n'
        ),
        Template(
            '[[package]]\nname = "attrs"\nversion = "24.2.0"\nfiles = [\n    {file = "attrs-24.2.0-py3-none-any.whl", hash = "sha256:⟪hex64⟫"},\n]\n',
            "toml",
        ),
        Template(
            '[[package]]\nname = "serde"\nversion = "1.0.217"\nsource = "registry+https://index.example.com"\nchecksum = "⟪hex64⟫"\n',
            "toml",
        ),
        Template("golang.org/x/text v0.21.0 h1:⟪b64-32⟫\ngolang.org/x/text v0.21.0/go.mod h1:⟪b64-32⟫\n"),
        Template("attrs==24.2.0 \\\n    --hash=sha256:⟪hex64⟫ \\\n    --hash=sha256:⟪hex64⟫\n"),
        Template(
            'left-pad@^1.3.0:\n  version "1.3.0"\n  resolved "https://yarn.example.com/left-pad.tgz#⟪hex40⟫"\n  integrity sha1-⟪b64-20⟫\n'
        ),
    ),
    "placeholder": (
        Template("Log in with `username=admin` and `password=changeme`, then change it.\n"),
        Template("export API_KEY=<your-api-key>\n"),
        Template("DB_PASSWORD=${DB_PASSWORD}\nAPI_TOKEN=${API_TOKEN:-}\n"),
        Template("password: xxxxxxxx\napi_key: YOUR_API_KEY_HERE\n", "yaml"),
        Template('token = os.environ["GITHUB_TOKEN"]\nsecret = os.getenv("CLIENT_SECRET")\n'),
        Template("curl -u user:password https://api.example.com/v1/ping\n"),
        Template("postgres://user:password@localhost:5432/database\n"),
        Template("password = ********\n"),
        Template('{"password": "", "token": null, "secret": false}\n', "json"),
        Template("    api_key: ${{ secrets.API_KEY }}\n"),
        Template("password: {{ vault_db_password }}\n"),
        Template(
            "aws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"
        ),
        Template("mysql://root:<password>@db/shop\n"),
        Template("PASSWORD=...\nSECRET=TODO\n"),
        Template("Set `ANTHROPIC_API_KEY=sk-ant-...` before you start.\n"),
    ),
    "code-about-secrets": (
        Template(
            "def login(user: str, password: str) -> Token:\n    token = issue(user, password)\n    return token\n"
        ),
        Template("if (password !== confirmPassword) {\n  throw new Error('passwords differ');\n}\n"),
        Template("password = getpass.getpass('Password: ')\n"),
        Template('secret = client.secrets.get("db-password").value\n'),
        Template(
            'type Credentials struct {\n\tPassword string `json:"password"`\n\tToken    string `json:"token"`\n}\n'
        ),
        Template('<input type="password" name="password" placeholder="Your password">\n'),
        Template("parser.add_argument('--password', help='the password of the account')\n"),
        Template("const token = await getAccessToken(request);\n"),
        Template("$password = $_POST['password'];\n"),
        Template('token_count = 128000\nmax_tokens = 4096\ntokenizer = "cl100k_base"\n'),
        Template("SELECT password_hash, token_expires_at FROM users WHERE id = $1;\n"),
        Template('    @Value("${spring.datasource.password}")\n    private String password;\n'),
        Template('key_id = "primary"\nprimary_key = "order_id"\nforeign_key = "customer_id"\n'),
        Template("secretKeyRef:\n  name: db-credentials\n  key: password\n", "yaml"),
        Template("hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt())\n"),
    ),
    "prose-about-secrets": (
        Template("The password is stored as a hash and never leaves the server.\n"),
        Template("Your password must be at least twelve characters long and contain a digit.\n"),
        Template("Das Passwort ist abgelaufen und muss geändert werden.\n"),
        Template("パスワードは8文字以上で入力してください。\n"),
        Template("密码是必填项,长度不能少于八位。\n"),
        Template("A token is an authentication header that the client sends with every request.\n"),
        Template("The API key is missing. Set it in the settings and try again.\n"),
        Template("Passwort vergessen? Klicken Sie hier, um es zurückzusetzen.\n"),
        Template("Secret: the sauce is better on the second day.\n"),
    ),
    "public-key": (
        Template(
            "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA⟪b64-24⟫\n⟪b64-32⟫\n-----END PUBLIC KEY-----\n"
        ),
        Template("-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIE⟪b64-24⟫\n⟪b64-lines⟫\n-----END CERTIFICATE-----\n"),
        Template("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI⟪b64-32⟫ mira@laptop\n"),
        Template("The key's fingerprint is SHA256:⟪b64-fingerprint⟫ mira@laptop\n"),
        Template("github.example.com ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ⟪b64-256⟫\n"),
        Template('{"kty": "RSA", "e": "AQAB", "use": "sig", "kid": "⟪hex16⟫", "n": "⟪b64url-256⟫"}\n', "json"),
    ),
    "base64-content": (
        Template("![dot](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA⟪b64-256⟫)\n"),
        Template('   "outputs": [{"data": {"image/png": "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg⟪b64-256⟫"}}]\n'),
        Template("@font-face { src: url(data:font/woff2;base64,d09GMgABAAAAA⟪b64-256⟫) }\n"),
        Template("Content-Transfer-Encoding: base64\n\nJVBERi0xLjQK⟪b64-lines⟫\n"),
        Template("//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbXX0=\n"),
    ),
    "identifier": (
        Template("doi:10.1038/s41586-020-2649-2, ISBN 978-3-16-148410-0, arXiv:1706.03762v7\n"),
        Template('"execution_count": 12, "id": "⟪hex8⟫", "metadata": {"tags": []}\n'),
        Template("arn:aws:iam::123456789012:role/deploy-prod\ni-0⟪hex16⟫ vpc-0⟪hex16⟫ ami-0⟪hex16⟫\n"),
        Template("Tracking number 1Z999AA10123456784, order 4711-2026-00031\n"),
        Template("G-⟪upper10⟫ UA-12345678-1 GTM-⟪upper7⟫\n"),
        Template("https://docs.example.com/d/1⟪alnum43⟫/edit#gid=0\n"),
        Template("IBAN DE89 3704 0044 0532 0130 00, BIC COBADEFFXXX\n"),
    ),
    "dump": (
        Template(
            "00000000  7f 45 4c 46 02 01 01 00  00 00 00 00 00 00 00 00  |.ELF............|\n00000010  03 00 3e 00 01 00 00 00  50 10 00 00 00 00 00 00  |..>.....P.......|\n"
        ),
        Template('  File "/usr/lib/python3.12/asyncio/base_events.py", line 1985, in _run_once\n    handle._run()\n'),
        Template("0x7ffd1a2b3c40 0x55d0c8f4e2a0 <_ZNSt6vectorIiSaIiEE9push_backEOi+0x1c>\n"),
        Template(
            '!function(e,t){"object"==typeof exports?module.exports=t():e.Lib=t()}(this,function(){var n=1e3,r="_key",o=n.password;return o||r});\n'
        ),
        Template("ACGTACGTTAGCCGATAGGCTTAACGGATCCATGCCGTAGGCTAACGATCGATTACGGCTA\n"),
        Template(
            "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.\n"
        ),
    ),
    "test-vector": (
        Template("# RFC 4231, case 1\nKey = 0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b\nData = 4869205468657265\n"),
        Template('SHA-1("abc") = a9993e364706816aba3e25717850c26c9cd0d89d\n'),
        Template('empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"\n'),
    ),
    "plain-url": (
        Template("https://user@example.com/path?page=2&sort=token_count#password\n"),
        Template("git@git.example.com:team/app.git\nssh://git@git.example.com:22/team/app.git\n"),
        Template("mailto:mira@example.com?subject=Password%20reset\n"),
        Template("redis://cache.internal:6379/0 amqp://mq.internal:5672\n"),
    ),
    "command-line": (
        Template("$ mysql -u root -p shop\nEnter password:\n"),
        Template("ssh -p 2222 -i ~/.ssh/id_ed25519 ops@box.example.com\n"),
        Template("docker run -p 8080:80 -e TOKEN -u 1000:1000 nginx\n"),
        Template("mkdir -p build/output && cp -pr src build/\n"),
        Template("tar -xzf app.tgz && python -m pytest -p no:cacheprovider\n"),
        Template("kubectl create secret generic db --from-file=password.txt\n"),
        Template("echo $PASSWORD | docker login -u ci --password-stdin registry.example.com\n"),
    ),
    "digest-beside-a-secret-word": (
        Template("SHA256 hash of secret-plan.zip:\n⟪hex64⟫\n"),
        Template("Cache restored from key: Linux-npm-⟪hex64⟫\n"),
        Template("  --discovery-token-ca-cert-hash sha256:⟪hex64⟫\n"),
        Template("ENV GPG_KEY 4F2A9C1D7E55B0A4F2E36B81D90C7A35E81F42BD\n"),
        Template("[user]\n\tsigningkey = 9C1D7E55B0A4F2E3\n"),
        Template("INFO cache get key=basket-20099881 ttl=300\n"),
    ),
    "reference-beside-a-secret-word": (
        Template("secret: projects/4001/secrets/mail-pass/versions/2\n"),
        Template("DB_PASSWORD=${DB_PASSWORD:?fill in}\n"),
        Template('export PASSWORD=$(cat /run/secrets/pg1)\npsql "postgresql://jo:$PASSWORD@db1:5432/shop"\n'),
        Template('[project.scripts]\npassword = "tools.password:run"\n', "toml"),
        Template('{"scripts": {"password": "node tools/pw.js"}}\n', "json"),
    ),
    "page-and-style": (
        Template("""<input v-model="password" :type="o ? 'text' : 'password'">\n"""),
        Template("""<input [type]="hide ? 'password' : 'text'" formControlName="password">\n"""),
        Template(".btn-key:hover{color:#123456}\n"),
        Template('{"password": "Ctrl+Alt+K"}\n', "json"),
        Template('expect(get("Password")).toHaveAttribute("type","password")\n'),
        Template('"text"===t.type||"password"===t.type||"x1"\n'),
    ),
    "expression-beside-a-secret-word": (
        Template("result = sorted(rows, key=len)[-1]\n"),
        Template("client.put_object(Bucket=bucket1, Key=bucket_key1, Body=data2)\n"),
        Template("key: Curve448PrivateKey | None\ntoken: Bicycle2Token\n"),
        Template("if password != confirm:  # pragma: no cover\n    return\n"),
        Template("t.key===l?a:b\n"),
        Template('read -p "Password: " S; ./go "$$S"\n'),
        Template("#3  login (password=0x7ffe12345678) at auth.c:88\n"),
        Template('token = r"[-!#$%&\'*+.^_`|~0-9a-zA-Z]+"\n'),
    ),
    "ordinary-words": (
        Template("- letter to the tenant\n- apology for the ticket\n- cook lemon chicken\n- original paper\n"),
        Template("she could never help the weird winner of the original ticket draw, what a good laugh\n"),
        Template("tokens: 1,204 in, 388 out; key insight: cache the prompt\n"),
    ),
}
"""Each kind's templates."""
