"""Every rule that is data finds what its examples mark, and spares the others."""

import random
import string

import pytest

from kagura_kernel.kit.redaction.patterns import Text
from kagura_kernel.kit.redaction.rules.configurations import RULES, Rule
from tests.support.redactors import shared_redactor

FINDS = [(rule, text) for rule in RULES for text in rule.finds]
SPARES = [(rule, text) for rule in RULES for text in rule.spares]


def found(rule: Rule, text: str) -> list[bytes]:
    data = Text.of(text.encode())
    return [data[span.start : span.end] for span in rule.find(data)]


@pytest.mark.parametrize(("rule", "text"), FINDS, ids=[rule.name for rule, _ in FINDS])
def test_a_rule_finds_what_its_examples_mark(rule, text):
    marked = [piece.partition("»")[0].encode() for piece in text.split("«")[1:]]
    assert marked
    assert found(rule, text.replace("«", "").replace("»", "")) == marked


@pytest.mark.parametrize(("rule", "text"), SPARES, ids=[rule.name for rule, _ in SPARES])
def test_a_rule_spares_what_only_looks_like_it(rule, text):
    assert found(rule, text) == []


def test_every_rule_has_a_name_of_its_own():
    assert len({rule.name for rule in RULES}) == len(RULES)


SECRET = "k4Rz9!vQm2Lx"
CALLS = [
    'conn = pymysql.connect("10.0.4.2", "shop", "{}", "orders")',
    "$link = mysqli_connect('localhost', 'wp_user', '{}', 'wordpress');",
    "$db = new mysqli('db01', 'blog', '{}', 'blog', 3306);",
    "$pdo = new PDO('mysql:host=db;dbname=shop', 'shop', '{}', [PDO::ATTR_ERRMODE => 2]);",
    'Connection c = DriverManager.getConnection("jdbc:postgresql://db/shop", "app", "{}");',
    'conn = DriverManager.getConnection(URL, "svc_billing", "{}");',
    'ssh.connect("10.0.3.9", 22, "ops", "{}")',
    'cx_Oracle.connect("hr", "{}", "db01/XEPDB1")',
    'smtp.login(sender, "{}")',
    "ftp = ftplib.FTP_TLS('files.example.org', 'nightly', '{}')",
    'r = redis.Redis("cache", 6379, 0, "{}")',
    "const token = jwt.sign({{ sub: user.id }}, '{}', {{ expiresIn: '1h' }});",
    'sig = hmac.new(b"{}", body, hashlib.sha256).hexdigest()',
    "const mac = crypto.createHmac('sha256', '{}').update(body).digest('hex');",
    'WiFi.begin("Fritzbox 7590", "{}");',
    'auth := smtp.PlainAuth("", "mailer@example.org", "{}", "smtp.example.org")',
    "l.simple_bind_s('cn=reader,dc=corp,dc=org', '{}')",
    'client.username_pw_set("sensor", "{}")',
    'session = winrm.Session("10.1.1.1", auth=("Administrator", "{}"))',
    'char[] pw = "{}".toCharArray();',
    "cy.get('input[name=password]').type('{}')",
    'page.fill("#password", "{}")',
    'curl_easy_setopt(c, CURLOPT_USERPWD, "wei:{}");',
    'strcpy(wifi_password, "{}");',
]
HARMLESS = [
    "pymysql.connect(host, user, password, db)",
    'conn = connect("db.internal", "reporting")',
    "connect('db.example.com', 5432, 'app', os.environ['PW'])",
    "self.client.login('alice', 'alice')",
    "WiFi.begin(WIFI_SSID2, WIFI_PASS2);",
    'jwt.sign(payload, process.env.JWT_SECRET, { algorithm: "HS256" })',
    "jwt.verify(token, publicKey2, {algorithms: ['RS256']})",
    "cipher = AES.new(key, AES.MODE_GCM, nonce=nonce1)",
    "crypto.createHash('sha256')",
    'char[] digits = "0123456789abcdef".toCharArray();',
]


@pytest.mark.parametrize("call", CALLS)
def test_the_password_of_a_call_goes_and_its_neighbours_stay(call):
    done = shared_redactor().redact(call.format(SECRET) + "\n").text
    before, after = call.format("\0").split("\0")
    assert SECRET not in done
    assert done.startswith(before)
    assert done.endswith(after + "\n")


@pytest.mark.parametrize("call", HARMLESS)
def test_a_call_without_a_literal_password_stays(call):
    assert shared_redactor().redact(call + "\n").text == call + "\n"


def test_of_four_texts_the_third_is_the_password_and_not_the_name_of_the_database():
    done = shared_redactor().redact(f'connect("10.0.4.2", "shop", "{SECRET}", "orders7Q")\n').text
    assert done == 'connect("10.0.4.2", "shop", "[REDACTED:password]", "orders7Q")\n'


def test_a_call_that_is_not_closed_is_no_call():
    text = 'connect("10.0.4.2", "shop", ' + "x, " * 400
    assert shared_redactor().redact(text).text == text


SECRET_OF_RULES_DEVICES_AND_SERVERS = "k4Rz9vQm2Lx7"
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
HARMLESS_OF_RULES_DEVICES_AND_SERVERS = [
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
    text = line.format(*[SECRET_OF_RULES_DEVICES_AND_SERVERS] * 2) + "\n"
    done = shared_redactor().redact(text).text
    assert SECRET_OF_RULES_DEVICES_AND_SERVERS not in done
    assert done.startswith(text[: text.index(SECRET_OF_RULES_DEVICES_AND_SERVERS)].split("$9$")[0].split("(q5")[0])
    assert done.count("\n") == text.count("\n")


@pytest.mark.parametrize("line", HARMLESS_OF_RULES_DEVICES_AND_SERVERS)
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


LETTERS = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
CHANCE = random.Random(5)


def some(count: int, letters: str = LETTERS) -> str:
    return "".join(CHANCE.choices(letters, k=count))


KEYS = (
    "AKIA" + some(16, string.ascii_uppercase),
    "ASIA" + some(16, UPPER),
    "LTAI5t" + some(18),
    "FLWSECK-" + some(32, HEX) + "-X",
    "AKCp" + some(69),
    "AQVN" + some(36),
    "sb_secret_" + some(22) + "_" + some(8),
    "EAA" + some(150),
    "CFPAT-" + some(43),
    "sl.B" + some(130),
    "sl.u.AF" + some(120),
    "fm2_" + some(80),
    "lsv2_pt_" + some(32, HEX) + "_" + some(10, HEX),
    "tvly-dev-" + some(32),
    some(76) + "AZDO" + some(4),
    "A" * 22 + some(24) + "%2B" + some(40) + "%3D" + some(10),
    "K005" + some(27),
)
BESIDE = (
    ('Session("AKIA{upper}", "{secret}")', 40, LETTERS),
    ("AKIA{upper}:{secret}", 40, LETTERS),
    ('twilio("AC{hex}","{secret}")', 32, HEX),
    ('Client("AC{hex}", "{secret}")', 32, HEX),
    ('f("rzp_live_{letters}","{secret}")', 24, LETTERS),
)
SECRET_OF_RULES_SERVICES = "k4Rz9vQm2Lx7"
PASSWORD = "k4Rz9!vQm2Lx"
GIVEN = (
    "useradd -m -p '{password}' mira",
    "useradd -p {secret} mira",
    "sudo useradd deploy -m -p '{password}'",
    "keytool -genkey -alias a -keystore k.jks -storepass {secret} -keypass 9xQ2vLm7kk",
    "keytool -importkeystore -srckeystore a.p12 -srcstorepass {secret} -destkeystore b.jks -deststorepass 9xQ2vLm7kk -destkeypass T5wE8rYu1p",  # noqa: E501
    "ssh-keygen -p -P {secret} -N 9xQ2vLm7kk -f id_ed25519",
    "ssh-keygen -t ed25519 -N '{password}' -f id",
    "gh secret set DEPLOY_KEY -b {secret}",
    "gh secret set X --body '{password}'",
    'gh secret set NPM_TOKEN -R a/b -b"{secret}"',
    "curl --cert a.pem:{secret} https://x.example.org/",
    "curl -E client.pem:{secret} https://x.example.org/",
    "mosquitto_passwd -b /etc/mosquitto/passwd sensor {secret}",
    "htpasswd -nb mira {secret}",
    "htpasswd -nb mira {secret}\nnginx -s reload",
    "htpasswd -nbB mira '{password}'\necho done",
    "htpasswd -bc /etc/nginx/.htpasswd mira {secret}\nnginx -s reload",
    "unrar x -p{secret} a.rar",
    "unrar x -p{password} -y a.rar out/",
    "7z x a.7z -p{secret}",
    'const s = process.env.JWT_SECRET ?? "{secret}"',
    "const s = process.env.JWT_SECRET || '{secret}';",
    "password = config.password ?? '{password}'",
    "export DB_PASSWORD=${{DB_PASSWORD:-{secret}}}",
    "DB_PASSWORD ?= {secret}",
    'password = os.environ.get("DB_PASSWORD") or "{password}"',
    'secret: process.env.SECRET || "{secret}",',
    'ENV["DB_PASSWORD"] || "{password}"',
    "$pw = $_ENV['DB_PASSWORD'] ?? '{password}';",
    'os.getenv("DB_PASSWORD", "{password}")',
    "remotepass={secret}",
    "remoteuser = a\nremotepass = {secret}",
    "ｐａｓｓｗｏｒｄ＝{secret}",
    "ｐａｓｓｗｏｒｄ：{secret}",
    "ＰＡＳＳＷＯＲＤ＝{secret}",
    "password = &quot;{secret}&quot;",
    "password=&#39;{secret}&#39;",
)
IN_PIECES = (
    'password = "".join(["k4Rz9!", "vQm2Lx"])',
    'std::string password = std::string("k4Rz9!") + "vQm2Lx";',
    'let password = concat!("k4Rz9!", "vQm2Lx");',
)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_says_itself_what_it_is_goes_wherever_it_stands(key):
    for text in (f"Noted: {key} for later\n", f'x = f("{key}")\n'):
        assert key not in shared_redactor().redact(text).text


@pytest.mark.parametrize(("text", "size", "letters"), BESIDE)
def test_what_stands_beside_a_known_id_goes(text, size, letters):
    secret = some(size, letters)
    filled = text.format(upper=some(16, UPPER), hex=some(32, HEX), letters=some(14), secret=secret)
    assert secret not in shared_redactor().redact(filled + "\n").text


@pytest.mark.parametrize("text", GIVEN)
def test_a_secret_that_is_given_or_taken_instead_goes(text):
    done = shared_redactor().redact(text.format(secret=SECRET_OF_RULES_SERVICES, password=PASSWORD) + "\n").text
    assert SECRET_OF_RULES_SERVICES not in done
    assert PASSWORD not in done
    assert "[REDACTED:" in done


@pytest.mark.parametrize("text", IN_PIECES)
def test_a_password_in_pieces_goes_in_every_language(text):
    done = shared_redactor().redact(text + "\n").text
    assert "k4Rz9!" not in done
    assert "vQm2Lx" not in done


def test_every_flag_of_a_command_that_takes_a_password_is_looked_at():
    text = "keytool -importkeystore -srcstorepass k4Rz9vQm2Lx7 -deststorepass 9xQ2vLm7kk -destkeypass T5wE8rYu1p\n"
    done = shared_redactor().redact(text + "ssh-keygen -p -P Zk81mQw7Lp -N Yt62nRv5Bd -f id\n").text
    assert done.count("[REDACTED:command-password]") == 5


@pytest.mark.parametrize("frame", ["{}", "<tls-auth>\n{}\n</tls-auth>"])
def test_a_static_key_of_openvpn_goes_and_its_frame_stays(frame):
    lines = [some(32, HEX) for _ in range(16)]
    begin, end = "-----BEGIN OpenVPN Static key V1-----", "-----END OpenVPN Static key V1-----"
    done = shared_redactor().redact(frame.format("\n".join([begin, *lines, end])) + "\n").text
    assert not any(line in done for line in lines)
    assert begin in done
    assert end in done


def test_a_key_for_everybody_stays_though_another_key_looks_like_it():
    text = "sitekey: 6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQtMaZLXjWl\n"
    assert shared_redactor().redact(text).text == text


SECRET_OF_RULES_SOURCE = "k4Rz9vQm2Lx7"
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
HARMLESS_OF_RULES_SOURCE = [
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
    text = source.format(*[SECRET_OF_RULES_SOURCE] * 2) + "\n"
    done = shared_redactor().redact(text).text
    assert SECRET_OF_RULES_SOURCE not in done
    assert "[REDACTED:" in done
    assert done.count("\n") == text.count("\n")


@pytest.mark.parametrize("source", HARMLESS_OF_RULES_SOURCE)
def test_source_without_a_secret_stays(source):
    assert shared_redactor().redact(source + "\n").text == source + "\n"


SECRET_OF_RULES_TALK = "k4Rz9!vQm2Lx7"
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
HARMLESS_OF_RULES_TALK = [
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
    done = shared_redactor().redact(talk.format(SECRET_OF_RULES_TALK) + "\n").text
    before, after = talk.format("\0").split("\0")
    assert SECRET_OF_RULES_TALK not in done
    assert done.startswith(before.split("Kz83")[0])
    assert done.endswith(after + "\n")


@pytest.mark.parametrize("talk", CODES)
def test_a_code_of_digits_is_gone_when_it_is_called_one(talk):
    assert "[REDACTED:pin]" in shared_redactor().redact(talk + "\n").text


@pytest.mark.parametrize("talk", HARMLESS_OF_RULES_TALK)
def test_talk_about_passwords_stays(talk):
    assert shared_redactor().redact(talk + "\n").text == talk + "\n"
