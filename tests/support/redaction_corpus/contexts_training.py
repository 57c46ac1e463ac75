"""Secrets that only what stands around them gives away: the training half."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.redaction_corpus.sample import Template

CONTEXTS: Mapping[str, tuple[Template, ...]] = {
    "uri-password": (
        Template("DATABASE_URL=postgres://shop:⟦url⟧@db.internal:5432/shop\n", "env"),
        Template(
            'engine = create_engine("postgresql+psycopg://reporting:⟦word⟧@10.4.0.12/warehouse?sslmode=require")\n'
        ),
        Template(
            "broker: amqp://worker:⟦url⟧@mq.internal:5672/jobs\nresult: redis://:⟦word⟧@cache.internal:6379/2\n", "yaml"
        ),
        Template("$ git remote -v\norigin  https://deploy:⟦word⟧@git.example.com/team/app.git (fetch)\n"),
    ),
    "connection-string": (
        Template(
            '"ConnectionStrings": {"Main": "Server=tcp:sql.example.com,1433;Database=Shop;User Id=app;Password=⟦password⟧;Encrypt=True;"}\n'
        ),
        Template("jdbc:mysql://db.example.com:3306/shop?user=app&password=⟦word⟧&useSSL=true\n"),
    ),
    "cli-password": (
        Template("$ mysql -h db.internal -u root -p⟦word⟧ shop < dump.sql\n"),
        Template("sshpass -p ⟦word⟧ ssh -o StrictHostKeyChecking=no ops@10.0.4.7 uptime\n"),
        Template("curl -sS -u 'ci-bot:⟦password⟧' https://nexus.example.com/repository/raw/app.tgz -O\n"),
        Template(
            "  512  docker login -u shipit -p ⟦word⟧ registry.example.com\n  513  docker push registry.example.com/app\n"
        ),
        Template("PGPASSWORD=⟦word⟧ pg_dump -h db.internal -U app shop | gzip > shop.sql.gz\n"),
        Template("htpasswd -nb mira ⟦word⟧\nnginx -s reload\n"),
        Template(
            "keytool -importkeystore -srckeystore a.p12 -srcstorepass ⟦word⟧ -destkeystore b.jks -deststorepass ⟦word⟧\n"
        ),
        Template("curl --cert client.pem:⟦word⟧ https://api.example.com/v1/ping\n"),
        Template("openssl enc -aes-256-cbc -K ⟦hex64⟧ -iv ⟪hex32⟫ -in dump.sql -out dump.enc\n"),
        Template("openssl pkcs12 -export -in cert.pem -inkey key.pem -out app.p12 -passout pass:⟦word⟧\n"),
    ),
    "netrc": (
        Template(
            "machine api.example.com\n  login deploy\n  password ⟦word⟧\n\nmachine git.example.com login mira password ⟦password⟧\n"
        ),
    ),
    "pgpass": (
        Template("# host:port:db:user:password\ndb.internal:5432:shop:app:⟦word⟧\n*:5432:*:reporting:⟦word⟧\n"),
    ),
    "client-file": (
        Template("[client]\nuser = backup\npassword = ⟦password⟧\nhost = db.internal\n", "ini"),
        Template("//npm.example.com/:_authToken=⟦uuid⟧\nregistry=https://npm.example.com/\n"),
        Template(
            "[distutils]\nindex-servers = internal\n\n[internal]\nrepository = https://pkg.example.com/legacy/\nusername = ci\npassword = ⟦password⟧\n"
        ),
    ),
    "docker-auth": (
        Template('{\n  "auths": {\n    "registry.example.com": {\n      "auth": "⟦basic⟧"\n    }\n  }\n}\n', "json"),
    ),
    "kubeconfig": (
        Template(
            "users:\n- name: admin\n  user:\n    client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t\n    client-key-data: ⟦b64-256⟧\n",
            "yaml",
        ),
        Template("users:\n- name: ci\n  user:\n    token: ⟦alnum32⟧\ncurrent-context: prod\n", "yaml"),
    ),
    "private-key": (
        Template("-----BEGIN RSA PRIVATE KEY-----\n⟦rsa-body⟧\n-----END RSA PRIVATE KEY-----\n"),
        Template(
            "cat > /etc/ssl/app.key <<EOF\n-----BEGIN PRIVATE KEY-----\n⟦pkcs8-body⟧\n-----END PRIVATE KEY-----\nEOF\nchmod 600 /etc/ssl/app.key\n"
        ),
        Template("-----BEGIN OPENSSH PRIVATE KEY-----\n⟦openssh-body⟧\n-----END OPENSSH PRIVATE KEY-----\n"),
        Template(
            '{\n  "type": "service_account",\n  "project_id": "tidewater-prod",\n  "private_key_id": "⟪hex40⟫",\n  "private_key": "-----BEGIN PRIVATE KEY-----\\n⟦rsa-escaped⟧\\n-----END PRIVATE KEY-----\\n",\n  "client_email": "sync@tidewater-prod.iam.example.com"\n}\n',
            "json",
        ),
    ),
    "cut-key": (
        Template("$ head -20 id_rsa\n-----BEGIN RSA PRIVATE KEY-----\n⟦rsa-body⟧\n$ exit\n"),
        Template("(continued from the page before)\n\n⟦key-rest⟧\n-----END RSA PRIVATE KEY-----\n"),
    ),
    "putty-key": (
        Template(
            "PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nComment: ops-laptop\nPublic-Lines: 2\nAAAAB3NzaC1yc2EAAAADAQABAAABAQDk\nq0Xv3w==\nPrivate-Lines: 10\n⟦putty-body⟧\nPrivate-MAC: ⟪hex64⟫\n"
        ),
    ),
    "pgp-key": (
        Template(
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n⟦pgp-body⟧\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----\n"
        ),
    ),
    "web-key": (
        Template(
            '{\n  "kty": "RSA",\n  "kid": "2026-03",\n  "e": "AQAB",\n  "n": "⟪b64url-256⟫",\n  "d": "⟦b64url-256⟧"\n}\n',
            "json",
        ),
    ),
    "xml-password": (
        Template(
            "<server>\n  <id>releases</id>\n  <username>ci</username>\n  <password>⟦password⟧</password>\n</server>\n",
            "xml",
        ),
        Template(
            '<bean id="ds" class="com.example.Pool">\n  <property name="username" value="app"/>\n  <property name="password" value="⟦word⟧"/>\n</bean>\n',
            "xml",
        ),
    ),
    "properties": (
        Template(
            "spring.datasource.url=jdbc:postgresql://db.internal/shop\nspring.datasource.username=app\nspring.datasource.password=⟦password⟧\nserver.port=8443\n"
        ),
        Template("server.ssl.key-store=classpath:app.p12\nserver.ssl.key-store-password=⟦word⟧\n"),
    ),
    "server-config": (
        Template("bind 10.0.0.5\nport 6379\nrequirepass ⟦word⟧\nmaxmemory 2gb\n"),
        Template('network={\n    ssid="Werkstatt"\n    psk="⟦password⟧"\n    key_mgmt=WPA-PSK\n}\n'),
        Template(
            "[Interface]\nAddress = 10.8.0.2/24\nPrivateKey = ⟦b64-32⟧\n\n[Peer]\nPublicKey = ⟪b64-32⟫\nAllowedIPs = 10.8.0.0/24\n"
        ),
    ),
    "http-header": (
        Template("GET /v2/orders HTTP/1.1\nHost: api.example.com\nAuthorization: Bearer ⟦alnum32⟧\nAccept: */*\n"),
        Template(
            "> POST /login HTTP/1.1\n> Host: example.com\n> Cookie: theme=dark; sessionid=⟦alnum32⟧\n< HTTP/1.1 302 Found\n"
        ),
        Template("curl -H 'X-Api-Key: ⟦hex32⟧' https://api.example.com/v1/things\n"),
    ),
    "query-parameter": (
        Template(
            '10.1.2.3 - - [04/Mar/2026:11:02:51 +0000] "GET /export?format=csv&access_token=⟦alnum32⟧ HTTP/1.1" 200 5120\n'
        ),
        Template(
            "https://store.example.com/bucket/report.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=3600&X-Amz-Signature=⟦hex64⟧\n"
        ),
    ),
    "prose-english": (
        Template("The staging password is ⟦password⟧, please do not share it outside the team.\n"),
        Template("Login for the demo: user mira, password: ⟦password⟧\n"),
        Template("To reach the box, ssh as ops and type ⟦password⟧ as the password when it asks.\n"),
        Template("> I changed the root password to ⟦password⟧ last night. Tell me if it does not work.\n"),
        Template("pw for the shared calendar = ⟦word⟧\n"),
    ),
    "prose-german": (
        Template("Das Passwort für den Testserver lautet ⟦password⟧. Bitte nicht weitergeben.\n"),
        Template("Zugangsdaten: Benutzer: mira, Kennwort: ⟦password⟧\n"),
        Template("Ich habe das Passwort auf ⟦password⟧ geändert, bitte einmal testen.\n"),
    ),
    "prose-japanese": (
        Template("ステージング環境のパスワードは ⟦password⟧ です。外部には共有しないでください。\n"),
        Template("ｐａｓｓｗｏｒｄ：⟦password⟧\n"),
        Template("ユーザー名:mira\nパスワード:⟦password⟧\n"),
        Template("新しいパスワードは「⟦password⟧」に変更しました。\n"),
    ),
    "prose-chinese": (
        Template("测试服务器的密码是 ⟦password⟧,请不要外传。\n"),
        Template("账号:mira 密码:⟦password⟧\n"),
        Template("我把数据库密码改成了⟦word⟧,大家注意一下。\n"),
    ),
    "split-literal": (
        Template('token = "ghp_⟦alnum20⟧" + "⟦alnum20⟧"\n'),
        Template('API_KEY = (\n    "sk_live_⟦alnum20⟧"\n    "⟦alnum20⟧"\n)\n'),
        Template("const password = '⟦word⟧' +\n  '⟦word⟧';\n"),
        Template('let password = concat!("⟦word⟧", "⟦word⟧");\n'),
    ),
    "seed-phrase": (
        Template("wallet backup (do not lose!):\n⟦phrase⟧\n"),
        Template('{"mnemonic": "⟦phrase⟧", "path": "m/44\'/60\'/0\'/0"}\n', "json"),
    ),
    "source-literal": (
        Template('conn = psycopg.connect(host="db.internal", user="app", password="⟦password⟧")\n'),
        Template("final dbPassword = '⟦password⟧';\n"),
        Template('const password = config.password ?? "⟦word⟧";\n'),
        Template("password = &quot;⟦word⟧&quot;\n"),
        Template('client = twilio("AC⟪hex32⟫", "⟦hex32⟧")\n'),
        Template('  private string _adminPassword = "⟦password⟧";\n'),
        Template('SECRET_KEY = "django-insecure-⟦alnum32⟧⟦alnum20⟧"\n'),
    ),
    "config-value": (
        Template('smtp:\n  host: mail.example.com\n  username: robot\n  password: "⟦password⟧"\n  port: 587\n', "yaml"),
        Template('{"ldap": {"bindDn": "cn=svc,dc=example", "bindPassword": "⟦password⟧", "tls": true}}\n', "json"),
        Template('[auth]\nclient_id = "tidewater"\nclient_secret = "⟦alnum32⟧"\n', "toml"),
        Template("SMTP_PASS='⟦password⟧'\nJWT_SECRET=⟦hex64⟧\nDEBUG=false\n", "env"),
    ),
    "kubernetes-secret": (
        Template(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ntype: Opaque\ndata:\n  username: YXBw\n  password: ⟦b64-password⟧\n",
            "yaml",
        ),
    ),
    "terraform": (
        Template('  ~ master_password = "⟦word⟧" -> "⟦word⟧"\n'),
        Template('db_username = "app"\ndb_password = "⟦password⟧"\ninstance    = "db.t4g.medium"\n'),
        Template(
            '{"resources": [{"type": "aws_db_instance", "instances": [{"attributes": {"engine": "postgres", "password": "⟦word⟧", "port": 5432}}]}]}\n',
            "json",
        ),
    ),
    "sql": (
        Template("CREATE USER app IDENTIFIED BY '⟦password⟧';\nGRANT ALL ON shop.* TO app;\n"),
        Template("ALTER ROLE reporting WITH LOGIN PASSWORD '⟦password⟧';\n"),
    ),
    "log-line": (Template("2026-03-04 11:02:51 DEBUG auth: trying user=mira password=⟦password⟧ realm=corp\n"),),
    "otp-seed": (Template("otpauth://totp/Example:mira@example.com?secret=⟦otp-seed⟧&issuer=Example&digits=6\n"),),
    "cloud-pair": (
        Template("[default]\naws_access_key_id = ⟪access-key-id⟫\naws_secret_access_key = ⟦aws-secret-key⟧\n", "ini"),
        Template(
            "DefaultEndpointsProtocol=https;AccountName=tidewater;AccountKey=⟦azure-storage-key⟧;EndpointSuffix=core.windows.net\n"
        ),
    ),
    "webhook": (
        Template("curl -X POST https://hooks.slack.com/services/T0⟪digits6⟫AB/B0⟪digits6⟫CD/⟦alnum24⟧ -d '{}'\n"),
    ),
}
"""Each kind's templates; the slots name makers of `values.VALUES`."""
