"""What a name says of its value: `dbPassword` a password, `api_key` a token, `primary_key` nothing."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

_PARTS = re.compile(rb"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\x00-\x7f]+")


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
    connectionstring aeskey cryptokey cipherkey datakey kek dek
    """.split()
)
_KEY_BEFORE = frozenset(
    b"""
    api access secret private auth encryption encrypt signing sign master account shared service session storage
    subscription consumer license licence webhook hmac jwt aes fernet crypto cipher deploy bot admin integration
    ingest ingestion write read routing app application client stripe openai anthropic google aws azure gcp sendgrid
    twilio mailgun datadog sentry algolia mapbox firebase supabase cloudflare github gitlab slack discord heroku
    vultr linode square paypal braintree plaid coinbase binance kraken telegram airtable notion hubspot intercom
    pagerduty newrelic honeycomb grafana rollbar pinecone weaviate cohere mistral groq replicate huggingface
    elevenlabs deepgram serpapi tavily exa maps places vision host wep wpa rcon unlock recovery sas dkim tsig rndc
    privat rapidapi etherscan infura alchemy moralis shared presharedkey preshared bugsnag amplitude segment mixpanel
    iterable customerio postmark sparkpost mandrill mailchimp resend loops zendesk freshdesk shopify magento woocommerce
    """.split()
)
"""What makes a `key` a secret one."""

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
    colour css theme style list item node current previous cancellation cancel injection
    """.split()
)
"""Words beside `token` that make it harmless."""


@lru_cache(maxsize=8192)
def says(name: bytes) -> Says:
    """What a name says of its value, by its words; case, `_`, `-` and `.` separate them."""
    words = [word.lower() for word in _PARTS.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    if not words or (words[-1] in _NOT_SECRET_END and not _ends_as_secret(words)):
        return Says.NOTHING
    last = words[-1]
    tail = b"".join(words[-2:])
    if last in _PASSWORD_WORDS or tail in _PASSWORD_WORDS or b"".join(words[-3:]) in _PASSWORD_WORDS:
        return Says.NOTHING if b"no" in words[:-1] or (last == b"pin" and len(words) > 2) else Says.PASSWORD
    return Says.TOKEN if _token(words, last, tail) else Says.NOTHING


def _token(words: list[bytes], last: bytes, tail: bytes) -> bool:
    before = words[-2] if len(words) > 1 else b""
    if last in {b"token", b"tokens"}:
        return last == b"token" and not _NOT_TOKEN.intersection(words)
    if last in {b"key", b"keys"}:
        secret = before in _KEY_BEFORE or b"secret" in words or b"private" in words or tail in _TOKEN_WORDS
        return secret and not _PUBLIC.intersection(words)
    if last == b"base" and b"key" in words:
        return b"secret" in words
    if last in _SAYS_NOTHING_ITSELF:
        return len(words) > 1 and says(b"_".join(words[:-1])) is not Says.NOTHING
    return (last in _TOKEN_WORDS or tail in _TOKEN_WORDS or last in {b"auth", b"dsn"}) and b"public" not in words


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
