"""Passwords and keys at their place among the arguments of a call."""

from __future__ import annotations

import pytest

from tests.support.redactors import shared_redactor

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
