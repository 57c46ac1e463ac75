"""Secrets that only what stands around them gives away: the half that no rule is made with."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.redaction_corpus.sample import Template

CONTEXTS: Mapping[str, tuple[Template, ...]] = {
    "uri-password": (
        Template("mongodb+srv://analytics:⟦url⟧@cluster0.ab1cd.mongodb.example.net/?retryWrites=true\n"),
        Template("CELERY_BROKER = 'amqps://celery:⟦word⟧@mq.prod.example.com/vhost'\n"),
        Template("ftp_proxy=http://proxyuser:⟦word⟧@proxy.corp.example.com:3128\n", "env"),
        Template("  -> connecting to clickhouse://default:⟦word⟧@10.2.0.9:9000/events ... failed\n"),
        Template('smtp = "smtps://robot:⟦url⟧@mail.example.com:465"\n', "toml"),
    ),
    "connection-string": (
        Template(
            '<add name="Orders" connectionString="Data Source=sql01;Initial Catalog=Orders;User ID=svc;Password=⟦word⟧" />\n',
            "xml",
        ),
        Template("DSN = 'DRIVER={ODBC Driver 18};SERVER=sql01;UID=svc;PWD=⟦password⟧;TrustServerCertificate=yes'\n"),
        Template("Host=db.internal;Port=5432;Username=app;Password=⟦word⟧;Database=shop\n"),
        Template('db, err := sql.Open("mysql", "app:⟦word⟧@tcp(db.internal:3306)/shop?parseTime=true")\n'),
        Template("host=db.internal port=5432 dbname=shop user=app password=⟦word⟧ sslmode=require\n"),
    ),
    "cli-password": (
        Template("mysqldump --user=backup --password=⟦word⟧ --all-databases > all.sql\n"),
        Template("smbclient //files/share -U 'mira%⟦word⟧' -c 'ls'\n"),
        Template("ldapsearch -x -D cn=admin,dc=example -w ⟦word⟧ -b dc=example '(uid=*)'\n"),
        Template("redis-cli -h cache.internal -a ⟦word⟧ ping\n"),
        Template("wget --user=ci --password='⟦password⟧' https://files.example.com/app.zip\n"),
        Template("7z x backup.7z -p⟦word⟧ -o/srv/restore\n"),
        Template("keytool -list -keystore app.jks -storepass ⟦word⟧\n"),
        Template("net use Z: \\\\files\\share /user:CORP\\mira ⟦word⟧\n"),
        Template("helm registry login registry.example.com --username ci --password ⟦word⟧\n"),
        Template("echo '⟦password⟧' | sudo -S systemctl restart app\n"),
        Template("rclone config create store webdav user mira pass ⟦word⟧\n"),
        Template("psql \"host=db user=app password=⟦word⟧\" -c 'select 1'\n"),
        Template("ansible-playbook site.yml -e ansible_become_pass=⟦word⟧\n"),
    ),
    "netrc": (
        Template("machine pkgs.example.com login ci-bot password ⟦word⟧\n"),
        Template("default\n\tlogin anonymous\n\tpassword ⟦password⟧\n\tmacdef init\n"),
    ),
    "pgpass": (Template("$ cat ~/.pgpass\nlocalhost:5432:*:postgres:⟦word⟧\n"),),
    "client-file": (
        Template('[mysqldump]\nuser=dumper\npassword="⟦password⟧"\n[mysql]\nprompt=\\u@\\h>\n'),
        Template("always-auth=true\n//registry.corp.example.com/npm/:_password=⟦b64-password⟧\n"),
        Template("admin:⟦bcrypt⟧\nreader:⟦bcrypt⟧\n"),
        Template(":rubygems_api_key: ⟦hex32⟧\n:corp: ⟦hex32⟧\n"),
        Template(
            "<settings><servers><server><id>corp</id><username>ci</username><password>⟦word⟧</password></server></servers></settings>\n",
            "xml",
        ),
        Template("https://mira:⟦word⟧@git.example.com\n"),
        Template("[github.com]\n    user: mira\n    oauth_token: ⟦alnum40⟧\n    git_protocol: https\n"),
    ),
    "docker-auth": (
        Template(
            '{"auths":{"https://index.example.io/v1/":{"username":"shipit","password":"⟦word⟧","auth":"⟦basic⟧"}}}\n',
            "json",
        ),
        Template(
            "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/dockerconfigjson\nmetadata: {name: pull}\ndata:\n  .dockerconfigjson: ⟦docker-json⟧\n",
            "yaml",
        ),
    ),
    "kubeconfig": (
        Template(
            "apiVersion: v1\nkind: Config\nusers:\n  - name: ops\n    user: {username: ops, password: ⟦word⟧}\n", "yaml"
        ),
        Template(
            "    user:\n      auth-provider:\n        config:\n          id-token: ⟦web-token⟧\n          refresh-token: ⟦alnum40⟧\n",
            "yaml",
        ),
    ),
    "private-key": (
        Template("-----BEGIN EC PRIVATE KEY-----\n⟦ec-body⟧\n-----END EC PRIVATE KEY-----\n"),
        Template("-----BEGIN ENCRYPTED PRIVATE KEY-----\n⟦encrypted-body⟧\n-----END ENCRYPTED PRIVATE KEY-----\n"),
        Template(
            "tls:\n  key: |\n    -----BEGIN RSA PRIVATE KEY-----\n    ⟦rsa-one-line⟧\n    -----END RSA PRIVATE KEY-----\n",
            "yaml",
        ),
        Template('DEPLOY_KEY="-----BEGIN PRIVATE KEY-----\\n⟦rsa-escaped⟧\\n-----END PRIVATE KEY-----"\n', "env"),
        Template("const KEY = `-----BEGIN RSA PRIVATE KEY-----\n⟦rsa-body⟧\n-----END RSA PRIVATE KEY-----`;\n"),
        Template("> -----BEGIN OPENSSH PRIVATE KEY-----\n> ⟦openssh-one-line⟧\n> -----END OPENSSH PRIVATE KEY-----\n"),
    ),
    "cut-key": (
        Template("key:\n⟦rsa-body⟧\n"),
        Template("[...]\n⟦key-rest⟧\n-----END PRIVATE KEY-----\n"),
        Template("DEBUG loaded key -----BEGIN RSA PRIVATE KEY-----\n⟦rsa-body⟧\n... (output truncated)\n"),
        Template("openssh key without its armour:\n⟦openssh-body⟧\n"),
        Template("PRIVATE_KEY=⟦rsa-one-line⟧\n", "env"),
    ),
    "putty-key": (
        Template(
            "PuTTY-User-Key-File-2: ssh-ed25519\nEncryption: none\nComment: mira\nPublic-Lines: 2\nAAAAC3NzaC1lZDI1NTE5AAAAIKb\nq0Xv3w==\nPrivate-Lines: 1\n⟦b64-32⟧\nPrivate-MAC: ⟪hex40⟫\n"
        ),
    ),
    "pgp-key": (
        Template("$ gpg --armor --export-secret-keys mira\n-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n⟦pgp-body⟧\n"),
    ),
    "web-key": (
        Template(
            '{"keys":[{"kty":"EC","crv":"P-256","x":"⟪b64url-32⟫","y":"⟪b64url-32⟫","d":"⟦b64url-32⟧","kid":"a1"}]}\n',
            "json",
        ),
        Template('{"kty": "oct", "alg": "HS256", "k": "⟦b64url-32⟧"}\n', "json"),
        Template(
            '{"kty":"RSA","n":"⟪b64url-256⟫","e":"AQAB","d":"⟦b64url-256⟧","p":"⟦b64url-128⟧","q":"⟦b64url-128⟧","dp":"⟦b64url-128⟧"}\n',
            "json",
        ),
    ),
    "xml-password": (
        Template('<Connector port="8443" keystoreFile="conf/app.jks" keystorePass="⟦word⟧" />\n', "xml"),
        Template(
            "<wsse:UsernameToken xmlns:wsse='urn:x'><wsse:Username>svc</wsse:Username><wsse:Password Type='PasswordText'>⟦word⟧</wsse:Password></wsse:UsernameToken>\n",
            "xml",
        ),
        Template(
            '<configuration><appSettings><add key="SmtpPassword" value="⟦word⟧"/></appSettings></configuration>\n',
            "xml",
        ),
        Template("<dict>\n  <key>ApiSecret</key>\n  <string>⟦alnum32⟧</string>\n</dict>\n", "xml"),
        Template("<ClientSecret><![CDATA[⟦password⟧]]></ClientSecret>\n", "xml"),
    ),
    "properties": (
        Template("db.user=app\ndb.pass=⟦password⟧\ndb.pool.size=10\n"),
        Template("hibernate.connection.password = ⟦word⟧\nhibernate.show_sql = false\n"),
        Template('sasl.jaas.config=org.example.PlainLoginModule required username="svc" password="⟦word⟧";\n'),
        Template("app.jwt.secret: ⟦b64-32⟧\napp.jwt.ttl: 3600\n"),
    ),
    "server-config": (
        Template("masterauth ⟦word⟧\nreplicaof 10.0.0.5 6379\nuser worker on >⟦word⟧ ~* +@all\n"),
        Template(
            "enable secret 5 $1$⟪hex8⟫$⟦alnum22⟧\nusername admin password 7 ⟦cisco7⟧\nsnmp-server community ⟦word⟧ RO\n"
        ),
        Template("ldap_default_bind_dn = cn=sssd,dc=example\nldap_default_authtok = ⟦password⟧\n"),
        Template("relayhost = [smtp.example.com]:587\nsmtp_sasl_password_maps = static:robot:⟦word⟧\n"),
        Template("mosquitto_pub -h broker -u sensor -P ⟦word⟧ -t home/temp -m 21\n"),
        Template("rabbitmq:\n  default_user: bunny\n  default_pass: ⟦word⟧\n", "yaml"),
        Template("xpack.security.http.ssl.keystore.secure_password: ⟦word⟧\nelastic:\n  password: ⟦word⟧\n", "yaml"),
        Template("[Peer]\nPublicKey = ⟪b64-32⟫\nPresharedKey = ⟦b64-32⟧\nEndpoint = vpn.example.com:51820\n"),
    ),
    "http-header": (
        Template("Authorization: Basic ⟦basic⟧\nContent-Type: application/json\n"),
        Template('headers = {"Authorization": "Token ⟦hex40⟧", "Accept": "application/json"}\n'),
        Template("Set-Cookie: JSESSIONID=⟦hex32⟧; Path=/; HttpOnly; Secure\n"),
        Template("proxy-authorization: Basic ⟦basic⟧\n"),
        Template('fetch(url, { headers: { "X-Auth-Token": "⟦alnum32⟧" } })\n'),
        Template("PRIVATE-TOKEN: ⟦alnum20⟧\nUser-Agent: curl/8.5.0\n"),
        Template(
            '{"request": {"headers": [{"name": "Authorization", "value": "Bearer ⟦web-token⟧"}, {"name": "Accept", "value": "*/*"}]}}\n',
            "json",
        ),
    ),
    "query-parameter": (
        Template("https://maps.example.com/tiles?z=4&x=8&y=5&apikey=⟦hex32⟧\n"),
        Template(
            "blob: https://tidewater.blob.example.net/c/f.csv?sv=2024-11-04&se=2026-12-01&sr=b&sp=r&sig=⟦url-signature⟧\n"
        ),
        Template("POST /oauth/token grant_type=client_credentials&client_id=web&client_secret=⟦alnum32⟧\n"),
        Template("callback?code=4f1&state=9&id_token=⟦web-token⟧\n"),
        Template("Reset link: https://app.example.com/reset?token=⟦b64url-32⟧\n"),
    ),
    "prose-english": (
        Template("Guest WiFi: network Lighthouse, key ⟦password⟧\n"),
        Template("For the VPN use mira / ⟦password⟧ until IT sends you your own.\n"),
        Template("Creds for staging below:\nuser: admin\npass: ⟦password⟧\n"),
        Template("just log in with password ⟦password⟧, it works for all three accounts\n"),
        Template("Temporary credentials, valid until Friday. Username mira@example.com. Passphrase ⟦password⟧.\n"),
        Template("the admin pwd is still ⟦password⟧ btw\n"),
        Template("| host | user | password |\n|---|---|---|\n| db1 | app | ⟦password⟧ |\n"),
        Template("The API secret we agreed on is `⟦alnum32⟧`.\n"),
        Template("My PIN for the safe is ⟦digits6⟧.\n"),
        Template("password changed from ⟦word⟧ to ⟦word⟧\n"),
    ),
    "prose-german": (
        Template("Das WLAN heißt Werkstatt, der Schlüssel ist ⟦password⟧.\n"),
        Template("Bitte melde dich mit dem Benutzer admin und dem Passwort ⟦password⟧ an.\n"),
        Template("Das Kennwort ist ⟦password⟧ (Groß- und Kleinschreibung beachten).\n"),
        Template("PW: ⟦password⟧\nBenutzername: admin\n"),
        Template("Mein neues Passwort: „⟦password⟧“\n"),
        Template("Hier die Zugangsdaten für den FTP: mira / ⟦password⟧\n"),
    ),
    "prose-japanese": (
        Template("管理者アカウントの暗証番号は⟦digits6⟧です。\n"),
        Template("ログインID: admin / パスワード: ⟦password⟧\n"),
        Template("サーバーのrootパスワードを「⟦password⟧」にしました。\n"),
        Template("パスワードが ⟦password⟧ に変わりましたのでご注意ください。\n"),
        Template("APIキー:⟦alnum32⟧\n"),
    ),
    "prose-chinese": (
        Template("管理员口令:⟦password⟧\n"),
        Template("登录密码为“⟦password⟧”,登录后请立即修改。\n"),
        Template("服务器账号 root,密码 ⟦password⟧\n"),
        Template("WiFi密码是⟦word⟧\n"),
        Template("新的 API 密钥是 ⟦alnum32⟧,旧的已经作废。\n"),
    ),
    "split-literal": (
        Template("key = 'xoxb-⟦digits12⟧' \\\n      '-⟦digits12⟧-⟦alnum24⟧'\n"),
        Template('String token = "glpat-⟦alnum10⟧"\n    + "⟦alnum10⟧";\n'),
        Template('secret := "⟦hex16⟧" +\n\t"⟦hex16⟧"\n'),
        Template("$apiKey = 'sk-ant-api03-⟦alnum43⟧' . '⟦alnum43⟧';\n"),
        Template('parts = ["ghp_⟦alnum10⟧", "⟦alnum10⟧", "⟦alnum16⟧"]\ntoken = "".join(parts)\n'),
        Template('PREFIX = "hf_"\ntoken = f"{PREFIX}⟦alnum32⟧"\n'),
    ),
    "seed-phrase": (
        Template('My recovery phrase is "⟦phrase⟧".\n'),
        Template('MNEMONIC="⟦phrase⟧"\nNETWORK=mainnet\n', "env"),
        Template("seed words, on paper in the drawer:\n⟦numbered-phrase⟧\n"),
        Template("const hdWallet = Wallet.fromPhrase('⟦phrase⟧');\n"),
        Template("⟦phrase⟧\n"),
        Template("die zwölf Wörter: ⟦phrase⟧\n"),
        Template("⟦comma-phrase⟧\n"),
    ),
    "source-literal": (
        Template("mail.login('robot@example.com', '⟦password⟧')\n"),
        Template("var pool = new Pool({ user: 'app', host: 'db', password: '⟦password⟧', max: 10 });\n"),
        Template(
            'ActiveRecord::Base.establish_connection(adapter: "mysql2", username: "app", password: "⟦password⟧")\n'
        ),
        Template("requests.get(url, auth=('ci', '⟦password⟧'))\n"),
        Template('client.setCredentials(new Credentials("svc", "⟦password⟧"));\n'),
        Template('const adminPwd = "⟦password⟧" // TODO: move to vault\n'),
        Template('if password == "⟦password⟧":\n    grant()\n'),
        Template("define( 'DB_PASSWORD', '⟦password⟧' );\ndefine( 'AUTH_KEY', '⟦alnum43⟧' );\n"),
        Template('hmac.new(b"⟦alnum32⟧", body, "sha256")\n'),
        Template('  secret_key_base: "⟦hex128⟧"\n'),
        Template('let private_key = "0x⟦hex64⟧";\n'),
        Template('ssh.connect("10.0.0.7", username="ops", passphrase="⟦password⟧")\n'),
        Template("os.environ['DB_PASS'] = '⟦password⟧'\n"),
    ),
    "config-value": (
        Template("production:\n  adapter: postgresql\n  username: shop\n  password: ⟦word⟧\n  pool: 5\n", "yaml"),
        Template('{"mail": {"auth": {"user": "robot", "pass": "⟦password⟧"}}}\n', "json"),
        Template("[smtp]\nlogin = robot\npasswd = ⟦word⟧\n", "ini"),
        Template("NEXTAUTH_SECRET=⟦b64-32⟧\nENCRYPTION_KEY=⟦hex64⟧\nNODE_ENV=production\n", "env"),
        Template("auth_token: '⟦hex40⟧'\ncookie_secret: ⟦b64url-32⟧\n", "yaml"),
        Template('[database]\nurl = "db.internal"\npwd = "⟦password⟧"\n', "toml"),
        Template("export RESTIC_PASSWORD='⟦password⟧'\nexport RESTIC_REPOSITORY=/srv/backup\n"),
        Template('{"Username": "svc", "Passphrase": "⟦password⟧", "Salt": "⟪hex16⟫"}\n', "json"),
        Template("vault_pass: ⟦word⟧\nbecome: true\n", "yaml"),
    ),
    "kubernetes-secret": (
        Template(
            "kind: Secret\napiVersion: v1\nmetadata:\n  name: api\nstringData:\n  token: ⟦alnum32⟧\n  url: https://api.example.com\n",
            "yaml",
        ),
        Template('{"apiVersion": "v1", "kind": "Secret", "data": {"api-key": "⟦b64-24⟧"}, "type": "Opaque"}\n', "json"),
        Template("$ kubectl create secret generic db --from-literal=password=⟦word⟧\n"),
    ),
    "terraform": (
        Template('variable "master_password" {\n  type    = string\n  default = "⟦password⟧"\n}\n'),
        Template('  + master_password = "⟦password⟧"\n  + port            = 5432\n'),
        Template('provider "vsphere" {\n  user     = "svc"\n  password = "⟦word⟧"\n}\n'),
        Template(
            '{"outputs": {"admin_password": {"value": "⟦password⟧", "type": "string", "sensitive": true}}}\n', "json"
        ),
    ),
    "sql": (
        Template("CREATE LOGIN svc WITH PASSWORD = N'⟦password⟧', CHECK_POLICY = OFF;\n"),
        Template("SET PASSWORD FOR 'app'@'%' = PASSWORD('⟦password⟧');\n"),
        Template("INSERT INTO users (name, email, password) VALUES ('mira', 'mira@example.com', '⟦password⟧');\n"),
        Template("CREATE USER reporting WITH ENCRYPTED PASSWORD '⟦password⟧' VALID UNTIL '2027-01-01';\n"),
        Template(
            "COPY orders FROM 's3://b/o' CREDENTIALS 'aws_access_key_id=⟪access-key-id⟫;aws_secret_access_key=⟦aws-secret-key⟧';\n"
        ),
    ),
    "log-line": (
        Template('{"event": "login", "user": "mira", "password": "⟦password⟧", "ok": false}\n', "json"),
        Template("Mar  4 11:02:51 box app[411]: POST /login params={'user': 'mira', 'pwd': '⟦password⟧'}\n"),
        Template("WARN  Retrying with credentials mira:⟦word⟧ (attempt 2 of 5)\n"),
        Template("[debug] secret=⟦alnum32⟧ nonce=⟪hex16⟫\n"),
        Template("generated initial admin password: ⟦alnum16⟧\n"),
        Template("A temporary password is generated for root@localhost: ⟦password⟧\n"),
        Template('Parameters: {"user"=>{"email"=>"mira@example.com", "password"=>"⟦password⟧"}}\n'),
    ),
    "otp-seed": (
        Template("otpauth://hotp/Corp:mira?issuer=Corp&counter=4&secret=⟦otp-seed⟧\n"),
        Template("TOTP_SECRET=⟦otp-seed⟧\n", "env"),
        Template("Can't scan it? Type this key into your authenticator: ⟦otp-seed⟧\n"),
    ),
    "recovery-codes": (
        Template("Your recovery codes, each works once:\n\n⟦codes⟧\n"),
        Template("## 2FA backup codes\n\n⟦codes⟧\n\nKeep them safe.\n"),
    ),
    "cloud-pair": (
        Template("AWS_ACCESS_KEY_ID=⟪access-key-id⟫ AWS_SECRET_ACCESS_KEY=⟦aws-secret-key⟧ aws s3 ls\n"),
        Template(
            '{"AccessKeyId": "⟪access-key-id⟫", "SecretAccessKey": "⟦aws-secret-key⟧", "Expiration": "2026-03-04T12:00:00Z"}\n',
            "json",
        ),
        Template("session = boto3.Session('⟪access-key-id⟫', '⟦aws-secret-key⟧')\n"),
        Template("az login --service-principal -u ⟪uuid⟫ -p ⟦azure-client-secret⟧ --tenant ⟪uuid⟫\n"),
    ),
    "webhook": (
        Template("WEBHOOK = 'https://discord.com/api/webhooks/⟪digits18⟫/⟦alnum68⟧'\n"),
        Template("slack:\n  url: https://hooks.slack.com/services/T0⟪upper7⟫/B0⟪upper7⟫/⟦alnum24⟧\n", "yaml"),
        Template("https://tidewater.webhook.office.com/webhookb2/⟪uuid⟫@⟪uuid⟫/IncomingWebhook/⟦hex32⟧/⟪uuid⟫\n"),
    ),
    "base64-wrapped": (
        Template("echo ⟦b64-export⟧ | base64 -d | sh\n"),
        Template("userData: ⟦b64-export⟧\n", "yaml"),
    ),
    "ansible": (
        Template("[web]\nbox1 ansible_user=ops ansible_ssh_pass=⟦word⟧\n"),
        Template('- hosts: db\n  vars:\n    mysql_root_password: "⟦password⟧"\n', "yaml"),
    ),
    "crypto-key": (
        Template("ETH_PRIVATE_KEY=0x⟦hex64⟧\n", "env"),
        Template("fernet_key = ⟦fernet⟧\nworkers = 4\n"),
        Template("master.key\n⟦hex32⟧\n"),
        Template("wallet import ⟦wif⟧\n"),
        Template("nsec for the bot: nsec1⟦bech58⟧\n"),
    ),
    "notebook": (
        Template(
            '{"cells": [{"cell_type": "code", "execution_count": 1, "id": "a1b2c3d4", "metadata": {}, "outputs": [{"name": "stderr", "output_type": "stream", "text": ["401 for https://svc:⟦word⟧@api.example.com/v1\\n"]}], "source": ["fetch()"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n',
            "ipynb",
        ),
        Template(
            '{"cells": [{"cell_type": "code", "execution_count": 1, "id": "a1b2c3d4", "metadata": {}, "outputs": [{"data": {"text/plain": ["{\'user\': \'app\', \'password\': \'⟦password⟧\'}"]}, "execution_count": 1, "metadata": {}, "output_type": "execute_result"}], "source": ["config[\'db\']"]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n',
            "ipynb",
        ),
        Template(
            '{"cells": [{"cell_type": "markdown", "id": "a1b2c3d4", "metadata": {}, "source": ["Log in as `app`, the password is `⟦password⟧`."]}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n',
            "ipynb",
        ),
    ),
}
"""Each kind's templates; the slots name makers of `values.VALUES`."""
