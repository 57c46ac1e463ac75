"""What a name says of its value (`dbPassword` a password, `primary_key` nothing), and whether the value is a secret."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.kit.redaction.chance import SAID, drawn, strewn
from kagura_kernel.kit.redaction.false_positives import openly
from kagura_kernel.kit.redaction.spans import line_start
from kagura_kernel.kit.redaction.values import crypted, entropy, password, placeholder, reference, token, validation

_PARTS = late_pattern(rb"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\x00-\x7f]+")


class Says(Enum):
    """What stands behind a name."""

    PASSWORD = "password"  # noqa: S105 - a word
    TOKEN = "token"  # noqa: S105 - a word
    NOTHING = "nothing"


_PASSWORD_WORDS = frozenset(
    b"""
    password passwords passwd passwort kennwort passphrase passcode pwd pass psk passw pword userpass dbpass dbpassword
    dbpasswd dbpwd userpassword adminpassword adminpass rootpassword rootpass rootpw bindpw bindpassword smtppass
    smtppassword mailpassword mailpass ftppassword ftppass sshpass mypassword loginpassword storepass keypass
    keystorepassword truststorepassword storepassword keypassword secretpassword requirepass masterauth contrasena senha
    wachtwoord motdepasse mdp parola haslo pgpassword mysqlpwd passphrases authpass privpass proxypassword wifipassword
    dbpw userpw adminpw smtppw ftppw mailpw sshpw loginpw mypw smbpass imappass emailpass mqttpass wifipass vncpass
    remotepass httppass userpasswd svcpass apppass
    pw pin unlockcode masterpassword becomepass sudopass
    """.split()
)
_TOKEN_WORDS = frozenset(
    b"""
    secret secrets token apikey apikeys secretkey accesskey privatekey authtoken accesstoken refreshtoken bearertoken
    sessiontoken idtoken clientsecret apitoken apisecret appsecret appkey credential credentials authkey encryptionkey
    signingkey masterkey consumersecret consumerkey sharedkey accountkey hmackey webhooksecret jwtsecret sharedsecret
    sessionsecret cookiesecret otpsecret totpsecret mnemonic seedphrase licensekey licencekey sastoken servicekey
    deploykey hashkey secrettoken sharedaccesskey storagekey primarykeyvalue subscriptionkey functionkey hostkey bearer
    authorization xapikey xauthtoken privatetoken deploytoken npmtoken githubtoken gitlabtoken slacktoken bottoken
    pepper sessionkey cookie jwt sid sessionid phpsessid jsessionid csrfsecret nonce_secret privkey seckey keydata
    bwsession identitytoken registrytoken sessionsecretkey
    passwordsalt hashsalt appsalt cryptsalt sessionsalt secretsalt authsalt noncesalt currentkey authsession usersession appsession loginsession sessioncookie connectionstring aeskey cryptokey cipherkey datakey kek dek
    """.split()
)
_KEY_BEFORE = frozenset(
    b"""
    api access secret private auth validation decryption encryption encrypt signing sign master account shared service session storage
    subscription consumer license licence webhook hmac jwt aes fernet crypto cipher deploy bot admin integration
    ingest ingestion write read routing app application client stripe openai anthropic google aws azure gcp sendgrid
    twilio mailgun datadog sentry algolia mapbox firebase supabase cloudflare github gitlab slack discord heroku
    vultr linode square paypal braintree plaid coinbase binance kraken telegram airtable notion hubspot intercom
    pagerduty newrelic honeycomb grafana rollbar pinecone weaviate cohere mistral groq replicate huggingface
    des elevenlabs deepgram serpapi tavily exa maps places vision host wep wpa rcon unlock recovery sas dkim tsig rndc
    privat rapidapi etherscan infura alchemy moralis shared presharedkey preshared bugsnag amplitude segment mixpanel
    iterable customerio postmark sparkpost mandrill mailchimp resend loops zendesk freshdesk shopify magento woocommerce
    """.split()
)
"""What makes a `key` a secret one."""
SECRET_KEYS = _KEY_BEFORE | frozenset(
    b"""
    wifi fi wlan network product activation bios door disk luks vpn root user security safe lock passphrase hotspot
    signing seed backup database db router
    """.split()
)
"""The same in what people say: the Wi-Fi key, a product key."""

_NOT_SECRET_END = frozenset(
    b"""
    file files path paths dir directory name names id ids type types length len size count limit min max url uri urls
    uris endpoint host hostname port ref reference references field fields label labels title description hint help
    text prompt placeholder policy policies rule rules strength valid validity valids validator validation validate
    enabled disabled required expiry expires expiration expire expired ttl age timeout lifetime rotation rotated
    updated created changed at date time timestamp version algorithm alg algo method mode format encoding
    class form input page view screen button column table index schema manager provider service handler store storage
    backend factory generator reset change changes update request requests response error errors message messages
    status state code codes fingerprint digest checksum sum prefix suffix regex pattern env var variable scope scopes
    issuer audience subject user username usage used budget cost counts per iter iterator stream bucket arn
    selector template format location source key_name mount volume vault is has length hash hashes rounds salt
    cache caching sign signs mask masked visible hidden show toggle
    """.split()
)
_NOT_TOKEN = frozenset(
    b"""
    public cursor pagination page next continuation start resume sync syntax lexer parser csrf xsrf crumb eos bos pad
    unk sep cls mask special max min num total prompt completion input output cached reasoning count stop design color
    colour css theme style list item node current previous cancellation cancel injection lock change request idempotency
    update lifecycle
    """.split()
)
"""Words beside `token` that make it harmless."""


@lru_cache(maxsize=8192)
def says(name: bytes) -> Says:
    """What a name says of its value, by its words; case, `_`, `-` and `.` separate them."""
    words = [word.lower() for word in _PARTS.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[0] in _SAID_TO_PEOPLE or (words[-1] in _NOT_SECRET_END and not _ends_as_secret(words)):
        return Says.NOTHING
    last = words[-1]
    if last == b"credential" and b"amz" in words:  # in a signed address: whose key it is, and where it holds
        return Says.NOTHING
    tail = b"".join(words[-2:])
    if last in _PASSWORD_WORDS or tail in _PASSWORD_WORDS or b"".join(words[-3:]) in _PASSWORD_WORDS or _glued(last):
        return Says.NOTHING if b"no" in words[:-1] or (last == b"pin" and len(words) > 2) else Says.PASSWORD
    if name.strip(b"\"'") == b"Sid":  # of a statement in a policy
        return Says.NOTHING
    if last == b"sid" and len(words) > 1 and words[-2] not in _OF_A_SESSION:
        return Says.NOTHING
    return Says.TOKEN if _token(words, last, tail, shouts=name.isupper() and len(words) > 1) else Says.NOTHING


_OF_A_SESSION = frozenset(
    b"connect session user auth login php sess web app portal shop admin cookie phpsess my".split()
)
"""What makes an SID one of a session: the others number an account, a message, a database."""
_GLUED = late_pattern(
    rb"(?!(?:no|re|un|set|get|has|is|ask|reset|forgot|change|show|hide|check|verify|valid|validate|confirm|split|parse|strip|print|read|input|prompt|make|generate|gen|mask|invalid|wrong|bad|"
    rb"missing|need|use|allow|require|encode|hash|test|my|your|the)(?:pass|kenn))[a-z]{2,14}"
    rb"(?:password|passwd|passwort|kennwort|passphrase|passcode|pwd)"
)
"""Two words written as one: `rpcpassword`, `masterpasswort`."""


def _glued(word: bytes) -> bool:
    return _GLUED.fullmatch(word) is not None


def _token(words: list[bytes], last: bytes, tail: bytes, *, shouts: bool) -> bool:
    before = words[-2] if len(words) > 1 else b""
    if last in {b"token", b"tokens"}:
        return last == b"token" and not _NOT_TOKEN.intersection(words)
    if last in {b"key", b"keys"}:
        secret = (
            before in _KEY_BEFORE
            or (shouts and before not in _OPEN_BEFORE)
            or b"secret" in words
            or b"private" in words
            or tail in _TOKEN_WORDS
        )
        return secret and not _PUBLIC.intersection(words)
    if last == b"base" and b"key" in words:
        return b"secret" in words
    if last in _SAYS_NOTHING_ITSELF:
        return len(words) > 1 and says(b"_".join(words[:-1])) is not Says.NOTHING
    return (last in _TOKEN_WORDS or tail in _TOKEN_WORDS or last in {b"auth", b"dsn"}) and b"public" not in words


_OPEN_BEFORE = frozenset(
    b"""
    primary foreign sort partition cache object s3 row message idempotency index lookup map dict json hash group shard
    range translation i18n locale registry hot arrow config setting settings option theme state local event metric
    feature flag meta options symbol props site recaptcha trace dedup join natural surrogate composite unique any context query redis lock rate
    limit param parameter column field sequence routing order data rsa dsa ecdsa ec ed25519 x509 ca cert certificate
    crypt alias kms no with last first new websocket old get set has is use release tag color secondary
    """.split()
)
"""What makes a key a mere name; any other word before it says token, when the name shouts: `KAGGLE_KEY`."""
_SAID_TO_PEOPLE = frozenset(
    b"label labels lbl msg message messages error errors i18n lang text txt placeholder hint title help tooltip".split()
)
"""How a name begins whose value is shown on a page."""
_PUBLIC = frozenset({b"public", b"publishable", b"pub"})
_SAYS_NOTHING_ITSELF = frozenset(
    b"""
    data value plain plaintext b64 base64 hex raw prod production live dev staging old new current previous backup main
    default
    """.split()
)
"""Words behind a name that leave what it says as it is."""


def _ends_as_secret(words: list[bytes]) -> bool:
    """`account_key`, `session id` and their like: two words that together are a secret, though the last is harmless."""
    return b"".join(words[-2:]) in _TOKEN_WORDS


_RESOURCE = late_pattern(rb"\b(?:arn:|AWS::)[\w:/*\-]*\Z")
_PARAMETERS = (b":param", b"@param", b":arg", b":keyword", b":type", b":raises", b"* @param", b"@property")


def documented(data: bytes, at: int) -> bool:
    """Whether the name there is explained, as in `:param password: …`, or is a part of a resource's name or of a marker."""
    if data[max(0, at - 10) : at] == b"[REDACTED:":
        return True
    line = data[line_start(data, at, 120) : at]
    return line.lstrip().startswith(_PARAMETERS) or (
        (b"arn:" in line or b"AWS::" in line) and _RESOURCE.search(line) is not None
    )


def worded(value: bytes) -> bool:
    """Letters of any script and what stands between words: `Contraseña`, `Passwort ändern`."""
    if value.isascii():
        return False
    text = value.decode("utf-8", "replace")
    if sum(one >= "\u3000" for one in text) >= 4:
        return True
    return all(one.isalpha() or one in " .,:;!?'’()-…" for one in text)


def secret(what: Says, name: bytes, value: bytes) -> bool:
    """Whether a value behind such a name is a secret."""
    if value.isalpha() or crypted(value):
        return _letters(what, value) if value.isalpha() else what is Says.PASSWORD
    if _plain(what, name, value):
        return False
    if what is Says.PASSWORD:
        return password(value) or (_phrase(value) and (name.isupper() or b"phrase" in name.lower()))
    if _long(name, value) or (_memorable(name, value) and password(value)):
        return True
    if b" " in value:
        parts = value.split()
        return len(parts) <= 6 and all(map(_PART.fullmatch, parts)) and any(token(part, 8) for part in parts)
    return token(value, _TOKEN if b"secret" in name.lower() or drawn(value, SAID) else 10)


def _letters(what: Says, value: bytes) -> bool:
    """Whether letters alone are a secret behind such a name: those that stand in no word's order."""
    enough = drawn(value) if what is Says.PASSWORD else len(value) >= _TOKEN and drawn(value, SAID)
    return enough and not (placeholder(value) or _ABOUT_ITSELF.search(value) or openly(value))


_TOKEN = 8
"""Letters that a token has at least."""
_ABOUT_ITSELF = late_pattern(rb"(?i)pass?w(?:or)?d|secret|token|key")


def _plain(what: Says, name: bytes, value: bytes) -> bool:
    """Whether this is no secret whatever is kept under such a name: a word, a type, a reference in quotes."""
    return (
        TESTED.match(value) is not None
        or validation(value)
        or _TYPE.fullmatch(value) is not None
        or worded(value)
        or _OPEN.match(value) is not None
        or (kind_of(what, name) in _NUMBERED_BY_UUID and (_UUID.fullmatch(value) or _OURS.fullmatch(value)) is not None)
        or value.startswith((b", ", b"), ", b") "))
        or (value.startswith(b":") and (_PATH.match(value) is not None or not strewn(value)))
        or openly(value)
        or (value[:1] in b"\"'" and reference(value.strip(b"\"'")))
        or placeholder(_ESCAPED_END.sub(b"", value))
        or value.strip(b"\"'\\").isalpha()
        or (name[-3:].lower() == b"pin" and len(value) - len(value.translate(None, _DIGITS)) < _PIN)
    )


_PATH = late_pattern(rb":[A-Za-z_]\w*[(<{:]")
"""What follows `Token:` in the path of a program: `Token::Ident2(ref name)`."""
_ESCAPED_END = late_pattern(rb"(?:\\{1,2}[nrt])+\Z")
_UUID = late_pattern(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OURS = late_pattern(rb"ses-[0-9a-hjkmnp-tv-z]{14}|run-[0-9a-z]{1,40}\.child-\d{1,6}")
"""The sessions of this program and those of their children, which open nothing."""
_NUMBERED_BY_UUID = frozenset({"session"})
_OPEN = late_pattern(rb"--[a-z][a-z-]+|S-1-\d+-[\d-]+$|\w+\)+/|-anonymous@")
"""What is no secret wherever it stands: an option, the number of an account of Windows, the end of an expression."""
TESTED = late_pattern(rb"[Tt]est(?:[A-Z_]\w*|s?/\S*)$")
"""Names of tests, which stand behind `PASS:`."""
_TYPE = late_pattern(rb"\[?[A-Z][A-Za-z]*!?\]?!?[):,]*")
_STOP = frozenset(b"please your enter set here the this that must should with from into and for not you change".split())


def _phrase(value: bytes) -> bool:
    """Four words or more that are no sentence: `lantern juniper copper walnut`."""
    words = value.split()
    return 4 <= len(words) <= 10 and all(
        word.isalpha() and word.islower() and 3 <= len(word) <= 10 and word not in _STOP for word in words
    )


def _long(name: bytes, value: bytes) -> bool:
    """A key of an application that was made of all signs of a keyboard, brackets too."""
    if not 40 <= len(value) <= 200 or any(
        sign in value for sign in (b" ", b'"', b"'", b";", b"->", b"${", b"{{", b"=>")
    ):
        return False
    lower = name.lower()
    return (
        (b"secret" in lower or lower.endswith(b"key"))
        and len(value) - len(value.translate(None, _DIGITS)) >= 3
        and entropy(value) > 4.2
        and not placeholder(value)
    )


_DIGITS = b"0123456789"
_PIN = 4
"""Digits of a number that opens something."""
_MEMORABLE = late_pattern(rb"[A-Za-z][\w.+\-]{3,40}\d{2,}[!@#$%&*?]+")
_NUMBERED_NAME = late_pattern(rb"[A-Z][a-z]{6,}\d{2,4}")


def _memorable(name: bytes, value: bytes) -> bool:
    """What people make up where a token is asked for: words, a number, mostly a sign."""
    shouts = name.isupper() and name.endswith((b"_TOKEN", b"_SECRET"))
    return _MEMORABLE.fullmatch(value) is not None or (shouts and _NUMBERED_NAME.fullmatch(value) is not None)


_PART = late_pattern(rb"[\w!@#%&*+=?.][\w!@#%&*+=?.\-]*")


def kind_of(what: Says, name: bytes) -> str:
    """The kind in the marker of what stands behind such a name."""
    if what is Says.PASSWORD:
        return "password"
    lower = name.lower()
    if b"token" in lower or b"bearer" in lower or b"jwt" in lower:
        return "token"
    if b"private" in lower:
        return "private-key"
    if b"cookie" in lower or b"sess" in lower or lower.endswith(b"sid"):
        return "session"
    return "api-key" if b"key" in lower else "secret"
