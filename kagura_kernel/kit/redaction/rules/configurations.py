"""Files of programs, servers and network devices that keep passwords in forms of their own."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.places import Span, line_start
from kagura_kernel.kit.redaction.rules.sentences import strong
from kagura_kernel.kit.redaction.values import classes, crypted, password, placeholder, token

_NETRC = Nearby(
    r"(?:^|\s)(?:machine\s+\S+\s+(?:#[^\n]*\s+)*(?:login\s+\S+\s+)?|default\s+login\s+\S+\s+)(?:account\s+\S+\s+)?(?:password|passwd)\s+(\"[^\"\n]+\"|\S+)"
)
_NETRC_LINE = Nearby(
    r"(?:^|\n)[ \t]*(?:login[ \t]+\S+[ \t]+)(?:password|passwd)[ \t]+(\S+)|(?:^|\n)[ \t]*login[ \t]+\S+[ \t]*\r?\n[ \t]*(?:password|passwd)[ \t]+(\S+)"
)
_PGPASS = Nearby(
    r"(?m:^)[ \t]*((?:\*|[\w.\-]+)):((?:\*|\d{2,5})):((?:\*|[\w\-$.]+)):((?:\*|[\w.\-@$]+)):((?:[^\s:\\]|\\[:\\])+)[ \t]*\r?(?m:$)"
)
_HTPASSWD = Nearby(
    r"(?:^|\n|\s|[\"'])[\w.@\-]+:(\${1,2}(?:2[abxy]|apr1|1|5|6|y|7|gy)\${1,2}[\w./$,+=]{20,}|\{SHA\}[\w+/=]{20,}|[./0-9A-Za-z]{13}(?:\r|\n|$))"
)
_SHADOW = Nearby(r"(?:^|\n|\s)[a-z_][\w\-]*:[!*]?(\$(?:2[abxy]|1|5|6|y|7|gy)\$[\w./$,=]{20,}):\d*:")
_REDIS = Nearby(
    r"(?:^|\n)[ \t]*(?:requirepass|masterauth|primaryauth|sentinel[ \t]+auth-pass[ \t]+\S+)[ \t]+[\"']?([^\s\"']+)"
)
_REDIS_SAID = Nearby(r"\b(?:requirepass|masterauth)[\"']?[\s=:,]+[\"']?([^\s\"',;\]]+)")
_REDIS_ACL = Nearby(r"\b(?:user|acl\s+setuser)\s+\S+\s[^\n]*?[\s]>([^\s\"']+)")
_REDIS_AUTH = Nearby(
    r"(?:(?m:^)|>\s?)[ \t]*AUTH[ \t]+(?:[\w\-]+[ \t]+)?([^\s\"']{6,})[ \t]*\r?(?m:$)", ignore_case=False
)
_SHARED = Nearby(
    r"\b(?:PSK|XAUTH|EAP|RSA)[ \t]+\"([^\"\n]+)\"|[\w.\]][ \t]*:[ \t]*PSK[ \t]+([^\s\"]{6,})[ \t]*\r?(?m:$)"
)
_BIND_KEY = Nearby(r"\bsecret\s+\"([A-Za-z0-9+/=]{16,})\"\s*;")
_POSTFIX = Nearby(r"(?m:^)[ \t]*\[?[\w.\-]+\.[a-z]{2,}\]?(?::\d+)?[ \t]+[\w.@+\-]+:(\S+)[ \t]*\r?(?m:$)")
_CISCO = Nearby(
    r"\b(?:enable\s+(?:secret|password)|username\s+\S+\s+(?:privilege\s+\d+\s+)?(?:secret|password)|(?m:^)[ \t]*password|key-string|"
    r"(?:tacacs|radius)-server\s+(?:host\s+\S+\s+)?key|neighbor\s+\S+\s+password|wpa-psk\s+ascii|ppp\s+chap\s+password)[ \t]+[0-9][ \t]+(\S+)"
)
_CISCO_KEY = Nearby(r"(?m:^)[ \t]*key[ \t]+[0-9][ \t]+(\S+)[ \t]*\r?(?m:$)")
_CISCO_PLAIN = Nearby(
    r"(?m:^)[ \t]*(?:enable\s+(?:secret|password)|username\s+\S+\s+(?:privilege\s+\d+\s+)?(?:secret|password)|(?:tacacs|radius)-server\s+(?:host\s+\S+\s+)?key)\s+([^\s\"]{5,})[ \t]*\r?(?m:$)"
)
_COMMUNITY = Nearby(
    r"\bsnmp-server\s+community\s+(\S+)|\br[ow]community6?\s+(\S+)|\bcreateUser\s+\S+\s+(?:MD5|SHA\S*)\s+\"?([^\s\"]+)"
)
_SQL = Nearby(
    r"\b(?:identified\s+(?:with\s+\S+\s+)?by(?:\s+password)?|(?:with\s+|encrypted\s+|valid\s+until\s+'[^'\n]*'\s+)*(?:password|passwd)(?:\s+for\s+\S+)?\s*=?|set\s+password\s+for\s+\S+\s*=|password\s*\(|old_password\s*\(|pgp_sym_(?:en|de)crypt\s*\([^\n,]*,|aes_(?:en|de)crypt\s*\([^\n,]*,|create\s+login\s+\S+\s+with\s+password\s*=|encryption\s+by\s+password\s*=|"
    r"crypt\s*\()\s*N?\(?(?:'([^'\n]+)'|\"([^\"\n]+)\")"
)
_IDENTIFIED = Nearby(r"\b(?:user|role|grant)\b[^\n;]{0,200}?\bidentified\s+by\s+([^\s\"'`;]+)")
"""A user of Oracle, whose password needs no quotes."""
_SECRET_LINES = Nearby(r"<(?:auth-user-pass|secret|tls-auth-password)>\s*\n\S+\n(\S+)\n\s*</")
_OPENVPN = Nearby(r"-----BEGIN OpenVPN Static key V1-----\s*([0-9a-fA-F\s]+?)\s*(?:-----END|$)")
_ERLANG = Nearby(r"(?:-setcookie|erlang\.cookie|ERLANG_COOKIE)[\s=:]+[\"']?([A-Za-z0-9_+/=\-]{8,})")
_WIREGUARD = Nearby(r"\b(?:PrivateKey|PresharedKey|preshared-key|private-key)\s*=\s*\"?([A-Za-z0-9+/]{43}=)")
_GPP = Nearby(r"\bcpassword\s*=\s*\"([A-Za-z0-9+/=]{10,})\"")
_DSN_PASSWORD = Nearby(
    r"(?:^|[;\"'\s])(?:pwd|password|user password|accountkey|sharedaccesskey|sharedsecret|sharedaccesssignature|access ?key)\s*=\s*(?:\{([^}\n]+)\}|([^;\"'\s<>]+(?: [^;\"'=<>\s]+)*))\s*(?:;|\"|'|\n|\r|$)"
)
_DSN = Nearby(
    r"(?:server|data source|host|endpoint|uid|user id|username|user|account(?:name)?|hostname|initial catalog|database|dbname|driver|sharedaccesskeyname|defaultendpointsprotocol|provider|persist security info)\s*="
)

_PASSWORDS = (
    _NETRC,
    _NETRC_LINE,
    _REDIS,
    _REDIS_SAID,
    _REDIS_ACL,
    _SHARED,
    _CISCO,
    _CISCO_KEY,
    _CISCO_PLAIN,
    _COMMUNITY,
    _SQL,
    _SECRET_LINES,
)
_TOKENS = (_BIND_KEY, _ERLANG, _WIREGUARD, _GPP)
_KEPT = (_HTPASSWD, _SHADOW)


def find_in_files(data: bytes) -> Iterator[Span]:
    """What stands where such a file has its password."""
    for pattern in _PASSWORDS:
        for found in pattern.finditer(data):
            if pattern is not _SQL or _said_to_a_database(data, found):
                yield from _certain(data, *_group(found))
    for pattern in _TOKENS:
        for found in pattern.finditer(data):
            start, end = _group(found)
            if token(data[start:end], 8):
                yield Span(start, end, "secret")
    yield from _kept(data)
    yield from _by_colons(data)
    for pattern in (_REDIS_AUTH, _IDENTIFIED):
        yield from _passwords(data, pattern)
    for found in _OPENVPN.finditer(data):
        yield Span(found.start(1), found.end(1), "private-key")
    yield from _connection_strings(data)


def _said_to_a_database(data: bytes, found: Match) -> bool:
    """Whether `identified by` is a word of SQL and none of a sentence."""
    if not (found.group() or b"").startswith(b"identified"):
        return True
    return _ACCOUNT.search(data, max(0, found.start() - 200), found.start()) is not None


_ACCOUNT = Nearby(r"\b(?:user|role|grant|link|account|create|alter)\b")


def _passwords(data: bytes, pattern: Nearby) -> Iterator[Span]:
    for found in pattern.finditer(data):
        if password(found.group(1) or b""):
            yield Span(found.start(1), found.end(1), "password")


def _kept(data: bytes) -> Iterator[Span]:
    """Passwords as systems keep them, behind a user."""
    for pattern in _KEPT:
        for found in pattern.finditer(data):
            start, end = _group(found)
            value = data[start:end].strip()
            if crypted(value.replace(b"$$", b"$")):
                yield Span(start, start + len(value), "password-hash")


def _group(found: Match) -> tuple[int, int]:
    """The one group that took part."""
    number = 1
    while found.start(number) < 0:
        number += 1
    return found.start(number), found.end(number)


def _certain(data: bytes, start: int, end: int) -> Iterator[Span]:
    value = data[start:end].rstrip(b";")
    inner = _unquoted(value)
    start += value.index(inner)
    if b" " not in inner and password(inner, certain=True):
        yield Span(start, start + len(inner), "password")


def _unquoted(value: bytes) -> bytes:
    """Without the quotes around it, and without one of which the other stands outside; a pair inside is its own."""
    while value[:1] in _QUOTES and value[:1] == value[-1:] and len(value) > 1:
        value = value[1:-1]
    for mark in _QUOTES:
        if value.count(mark) % 2:
            value = value.removeprefix(mark) if value.startswith(mark) else value.removesuffix(mark)
    return value


_QUOTES = (b"'", b'"')


def _by_colons(data: bytes) -> Iterator[Span]:
    if b":" not in data:
        return
    for found in _PGPASS.finditer(data):
        if password(found.group(5) or b"", certain=True) and not (found.group(5) or b"").isdigit():
            yield Span(found.start(5), found.end(5), "password")
    for found in _POSTFIX.finditer(data):
        if password(found.group(1) or b"") and b"//" not in (found.group(1) or b""):
            yield Span(found.start(1), found.end(1), "password")


def _connection_strings(data: bytes) -> Iterator[Span]:
    for found in _DSN_PASSWORD.finditer(data):
        start, end = _group(found)
        begin = line_start(data, start, 1000)
        stop = data.find(b"\n", end, end + 1000)
        line = data[begin : stop if stop >= 0 else min(len(data), end + 1000)]
        if b";" in line and _DSN.search(line) is not None:
            value = data[start:end].rstrip()
            if password(value, certain=True):
                yield Span(start, start + len(value), "connection-string")


_KIND = "password"
_LINE = r"(?m:^)[ \t]*"
_END = r"[ \t]*\r?(?m:$)"
_CERTAIN = Nearby(
    r"(?:\bstats[ \t]+auth[ \t]+[^\s:]+:|"
    rf"{_LINE}user[ \t]+[\w.@\-]+[ \t]+(?:insecure-)?password[ \t]+|"
    r"\b[\w.\-]+[ \t]+[\w.\-]+/[\w.\-/]*(?:passw|secret)[\w.\-]*[ \t]+(?:password|string)[ \t]+|"
    r"\bpassword is generated for [^\s:]+:[ \t]|"
    r"\b(?:bindpw|rootpw|olcRootPW:|ldap_default_authtok[ \t]*=|bind_pw)[ \t]+|"
    r"\{(?:PLAIN|CLEAR|CLEARTEXT)\}|"
    r"\b334 UGFzc3dvcmQ6[ \t]*\r?\n(?:C:[ \t]*)?|"
    r"\bMONITOR[ \t]+\S+@\S+[ \t]+\d+[ \t]+\S+[ \t]+|"
    r"\b(?:wsrep_)?sst_auth[ \t]*=[ \t]*[\"']?[\w\-]+:|"
    r"\b(?:unseal key(?: \d+)?|initial root token|recovery key \d+)[ \t]*:[ \t]*|"
    r"\bpassword\b[^\n]{0,80}\n[ \t]*new value[ \t]*:[ \t]*|"
    r"\bset[ \t]+password[ \t]+for[ \t]+\S+[ \t]+|"
    r"\bopenssl[ \t]+passwd[ \t]+(?:-\w+[ \t]+)*)"
    r"\"?'?([^\s\"']+)"
)
_ACL = Nearby(r"[ \t]>([^\s\"'~&+@<>|]{6,})")
_ACL_LINE = Nearby(r"\b(?:user[ \t]+\S+[ \t]+(?:on|off|reset|>)|setuser[ \t]+\S+)[^\n]*")
_PPP = Nearby(
    rf"{_LINE}\"?[a-z][\w.@\\\-]*\"?[ \t]+(?:\*|\"\*\")[ \t]+(?:\"([^\"\n]+)\"|([^\s\"';,()]+))(?:[ \t]+[*\d./\-]+)*{_END}"
)
_CHPASSWD = Nearby(
    r"\bchpasswd\b[^\n]*\n((?:[ \t]*(?:expire|list)[ \t]*:[^\n]*\n)*)((?:[ \t]*(?:-[ \t]+)?[\"']?[a-z_][\w\-]*:[^\s\"']+[\"']?[ \t]*\r?(?:\n|$)){1,20})"
)
_USER_LINE = Nearby(r"[a-z_][\w\-]*:([^\s\"']+)")
_SALTED = Nearby(
    r"\bdefine\(\s*[\"']\w*(?:_KEY|_SALT|_SECRET)[\"']\s*,\s*(?:'([^'\n]{20,})'|\"([^\"\n]{20,})\")", ignore_case=False
)
_DRAWN = Nearby(r"\"random_password\"", ignore_case=False)
_RESULT = Nearby(r"\"result\"\s*:\s*\"((?:[^\"\\\n]|\\[^\n])+)\"", ignore_case=False)
"""What Terraform drew, in its state."""
_REACH = 900
_HOST_TOKEN = Nearby(
    r"\"(?:github-oauth|gitlab-token|gitlab-oauth|bearer)\"\s*:\s*\{\s*\"[^\"\n]+\"\s*:\s*\"([^\"\n]{12,})\""
)
"""Tokens of Composer, by host."""
_DUMPED = Nearby(r":\d+:[0-9a-f]{32}:([0-9a-f]{32}):::")
"""Passwords as Windows keeps them, in a dump."""
_KAGGLE = Nearby(
    r"\"username\"\s*:\s*\"[^\"\n]+\"\s*,\s*\"key\"\s*:\s*\"([0-9a-f]{32})\"|\"key\"\s*:\s*\"([0-9a-f]{32})\"\s*,\s*\"username\""
)
_BELOW = Nearby(
    r"\b(?:password|passphrase|passwort|kennwort|api[ -]?key|token|secret|unseal key|recovery key|mot de passe|contraseña)\b[^\n]{0,80}(?::|\*{3,})[ \t]*\r?\n(?:[ \t*]*\r?\n){0,2}[ \t]*([^\s\"'`,;{}\[\]]{8,})[ \t]*\r?(?:\n|$)"
)
"""A line that announces, and below it the value alone."""
_RAW_LOGIN = Nearby(
    rf"(?:\bquote[ \t]+|(?:[>:]|-->|>>>)[ \t]+|\bUSER[ \t]+\S+[^\n]*\n(?:[^\n]*\n){{0,2}}?[^\n]{{0,40}}?)PASS[ \t]+([^\s:]+){_END}",
    ignore_case=False,
)
_CHAT_LOGIN = Nearby(
    rf"(?:{_LINE}\w*\d+ LOGIN \"?[^\s\"]+\"? \"?|(?:/msg |PRIVMSG |/)?\b(?:NickServ|ns)[ \t]+:?(?:IDENTIFY|identify)[ \t]+|/oper[ \t]+\w+[ \t]+)([^\s\"]+)",
    ignore_case=False,
)
_IRC_PASS = Nearby(rf"{_LINE}PASS[ \t]+:?([^\s:]+)\r?\n(?:NICK|USER|SERVER) ", ignore_case=False)
_FTP_USER = Nearby(rf"\b(?:ftp|ncftp)\b[^\n]*\n(?:[^\n]*\n){{0,4}}?{_LINE}user[ \t]+\S+[ \t]+(\S+){_END}")


def find_in_servers(data: bytes) -> Iterator[Span]:
    """Passwords in lines that only such programs write or read."""
    for start, end, certain in _places(data):
        value = data[start:end]
        if not value.startswith(b"-") and (crypted(value) or password(value, certain=certain)):
            yield Span(start, end, _KIND)
    for pattern in (_SALTED, _KAGGLE, _HOST_TOKEN, _DUMPED):
        for found in pattern.finditer(data):
            start, end = _server_group(found)
            if not placeholder(data[start:end]):
                yield Span(start, end, "secret")
    for found in _BELOW.finditer(data):
        value = found.group(1) or b""
        if token(value, 8) or strong(value):
            yield Span(found.start(1), found.end(1), _KIND)


def _places(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Where a password may stand, and whether nothing else can stand there."""
    for pattern, certain in (
        (_CERTAIN, True),
        (_FTP_USER, True),
        (_PPP, False),
        (_RAW_LOGIN, False),
        (_CHAT_LOGIN, False),
        (_IRC_PASS, False),
    ):
        for found in pattern.finditer(data):
            if pattern is not _PPP or found.start(1) >= 0 or strong(found.group(2) or b""):
                yield (*_server_group(found), certain)
    for outer, inner in ((_ACL_LINE, _ACL), (_CHPASSWD, _USER_LINE)):
        for lines in outer.finditer(data):
            for found in inner.finditer(data, lines.start(), lines.end()):
                yield (*_server_group(found), True)
    for drawn in _DRAWN.finditer(data):
        found_result = _RESULT.search(data, drawn.end(), drawn.end() + _REACH)
        if found_result is not None:
            yield (*_server_group(found_result), True)


def _server_group(found: Match) -> tuple[int, int]:
    group = 1 if found.start(1) >= 0 else 2
    return found.start(group), found.end(group)


_DEVICE_KIND = "password"
_VALUE = r"[\"']?([^\s\"';]+)"
_HIDDEN = (
    r"(?:[0-9]|ENC|cipher|irreversible-cipher|simple|plaintext|plain|hash|sha1|sha256|sha512|md5|ascii|ascii-text|"
    r"hexadecimal|clear|clear-text|encrypted|unencrypted|8021x|plain-text)"
)
"""How the secret was hidden: it stands between the word and the secret."""
_MARKED = Nearby(
    r"\b(?:password|passwd|secret|key|key-string|psksecret|psk|passphrase|community|wpa-psk|wpa2-psk|pre-shared-key|"
    r"shared-key|shared-secret|authentication-key|auth-key|auth-password|privacy-password|md5|sha|priv(?:[ \t]+(?:aes|des|3des)(?:[ \t]+\d+)?)?)"
    rf"[ \t]+(?:level[ \t]+\d+[ \t]+)?{_HIDDEN}[ \t]+{_VALUE}"
)
_BEHIND_HEAD = Nearby(
    r"(?:\bcrypto[ \t]+isakmp[ \t]+key|\bisakmp[ \t]+key|\bikev[12][ \t]+(?:local-authentication[ \t]+|remote-authentication[ \t]+)?pre-shared-key|"
    r"\bpre-shared-key[ \t]+(?:local[ \t]+|remote[ \t]+|address[ \t]+\S+[ \t]+(?:\S+[ \t]+)?key[ \t]+)|\bpre-shared-key|"
    r"\bip[ \t]+ospf[ \t]+authentication-key|\bmessage-digest-key[ \t]+\d+[ \t]+md5|\bneighbor[ \t]+\S+[ \t]+password|"
    r"\bset[ \t]+(?:[^\s]+[ \t]+){0,12}(?:encrypted-password|plaintext-password|plain-text-password-value|authentication-key|pre-shared-secret|psksecret|passwd|shared-secret|secret|passphrase|key)|"
    r"\b(?:encrypted-password|authentication-key|pre-shared-key[ \t]+(?:ascii-text|hexadecimal)|plain-text-password-value|pre-shared-secret|psksecret)|"
    r"\bset[ \t]+snmp[ \t]+community|\bsnmp-agent[ \t]+community[ \t]+(?:read|write)|\bset[ \t]+community|\bcommunity-name|"
    r"\bstandby[ \t]+\d+[ \t]+authentication(?:[ \t]+md5[ \t]+key-string)?|\bvrrp[ \t]+\d+[ \t]+authentication(?:[ \t]+md5)?(?:[ \t]+text|[ \t]+key-string)?|"
    r"\b(?:tacacs|radius)(?:-server)?[ \t]+(?:server[ \t]+|host[ \t]+)?\S*[ \t]*(?:\S+[ \t]+){0,6}key|\bserver-private[ \t]+\S+[ \t]+key|\bserver-key|"
    r"\bppp[ \t]+(?:chap|pap)[ \t]+(?:sent-username[ \t]+\S+[ \t]+)?password|\bkey-string|\bip[ \t]+ftp[ \t]+password|\bntp[ \t]+authentication-key[ \t]+\d+[ \t]+(?:md5|sha1)|"
    r"\bsnmp-server[ \t]+user[ \t]+\S+[ \t]+\S+[ \t]+v3[ \t]+(?:encrypted[ \t]+)?auth[ \t]+(?:md5|sha)|\bldap-login-password|\bauth-secret|"
    r"\buser-name[ \t]+\S+[ \t]+plaintext|\blocal-user[ \t]+\S+[ \t]+password|\bsuper[ \t]+password|\bwlan-?(?:passphrase|key)|\bphash|"
    r"\bsecurity[ \t]+wpa[ \t]+psk[ \t]+set-key|\bpsk[ \t]+set-key|\boption[ \t]+(?:key|password|psk|secret|auth_secret|sae_password|private_key|preshared_key))"
    rf"[ \t]+(?:{_HIDDEN}[ \t]+)?{_VALUE}"
)
_PRIVATE = Nearby(
    r"\b(?:md5|sha\S*)[ \t]+\S+[ \t]+(?:priv[ \t]+)?(?:aes[ \t]+\d+|aes-?\d*|des|3des)[ \t]+[\"']?([^\s\"']+)"
)
_CRYPTED = Nearby(r"\$\d{1,2}\$[^\s\"]{8,}")
_CODE = frozenset(b"`<>\\[]{}")
_ENDS = b".,:)"
"""What ends a word of a sentence."""
_JUNOS = Nearby(r"\"(\$[89]\$[^\s\"]{6,})\"")
"""How Junos hides secrets; it can be undone by anybody."""


def find_in_devices(data: bytes) -> Iterator[Span]:
    """Secrets in the configurations of network devices."""
    for found in _MARKED.finditer(data):
        if _chance(found.group(1) or b""):
            yield _span(found)
    for pattern in (_BEHIND_HEAD, _PRIVATE):
        for found in pattern.finditer(data):
            value = found.group(1) or b""
            bare = value.rstrip(_ENDS)
            if crypted(value) or (
                password(bare) and classes(bare) > 1 and not _CODE.intersection(value) and value[:1] != b"("
            ):
                yield _span(found)
    for found in _JUNOS.finditer(data):
        yield _span(found)


def _span(found: Match) -> Span:
    return Span(found.start(1), found.end(1), _DEVICE_KIND)


def _chance(value: bytes) -> bool:
    """Whether digits and letters stand in it as in no word: `094F471A1A0A`, `$1$mERr$hx5r`, `Kd83jsk`."""
    digits = sum(48 <= byte <= 57 for byte in value)
    letters = sum(65 <= byte <= 90 or 97 <= byte <= 122 for byte in value)
    return (
        len(value) >= 6
        and digits >= 1
        and letters >= 1
        and (password(value) or (_CRYPTED.match(value) is not None and b"..." not in value))
    )
