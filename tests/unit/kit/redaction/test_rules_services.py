"""Keys of services by their form alone, secrets beside a known id, on command lines and behind what is missing."""

from __future__ import annotations

import random
import string

import pytest

from tests.support.redactors import shared_redactor

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
SECRET = "k4Rz9vQm2Lx7"
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
    done = shared_redactor().redact(text.format(secret=SECRET, password=PASSWORD) + "\n").text
    assert SECRET not in done
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
