"""What a rule is; and files of programs, servers and network devices that keep passwords in forms of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.rules.sentences import strong
from kagura_kernel.kit.redaction.spans import Span, line_start
from kagura_kernel.kit.redaction.values import classes, crypted, password, placeholder, token


def always(_: bytes) -> bool:
    """Whatever stands there is a secret."""
    return True


def whole(value: bytes) -> bytes:
    """All that stands there."""
    return value


def anywhere(_data: bytes, _found: Match) -> bool:
    """Whatever stands around it."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A form in which secrets stand."""

    name: str
    pattern: Nearby  # its first group that takes part is what may be a secret
    finds: tuple[str, ...]  # texts in which it finds what stands between « and », and nothing else
    spares: tuple[str, ...] = ()  # texts in which it finds nothing
    kind: str = "password"
    judge: Callable[[bytes], bool] = always
    narrowed: Callable[[bytes], bytes] = whole  # what of that may be one
    where: Callable[[bytes, Match], bool] = anywhere
    within: Nearby | None = None  # the pattern is looked for in what this one matches, or anywhere

    def find(self, data: bytes) -> Iterator[Span]:
        """The secrets in a text of UTF-8."""
        if self.within is None:
            yield from self._judged(data, self.pattern.finditer(data))
            return
        for part in self.within.finditer(data):
            yield from self._judged(data, self.pattern.finditer(data, part.start(), part.end()))

    def _judged(self, data: bytes, matches: Iterable[Match]) -> Iterator[Span]:
        for found in matches:
            group = 1
            while found.start(group) < 0:
                group += 1
            captured = found.group(group) or b""
            value = self.narrowed(captured)
            if self.where(data, found) and self.judge(value):
                start = found.start(group) + captured.index(value)
                yield Span(start, start + len(value), self.kind)


_NETRC = Nearby(
    r"(?:^|\s)(?:machine\s+\S+\s+(?:#[^\n]*\s+)*(?:login\s+\S+\s+)?|default\s+login\s+\S+\s+)(?:account\s+\S+\s+)?(?:password|passwd)\s+(\"[^\"\n]+\"|\S+)"
)
_NETRC_LINE = Nearby(
    r"(?:^|\n)[ \t]*(?:login[ \t]+\S+[ \t]+)(?:password|passwd)[ \t]+(\S+)|(?:^|\n)[ \t]*login[ \t]+\S+[ \t]*\r?\n[ \t]*(?:password|passwd)[ \t]+(\S+)"
)
_PGPASS = Nearby(
    r"(?m:^)[ \t]*(?:\*|[\w.\-]+):(?:\*|\d{2,5}):(?:\*|[\w\-$.]+):(?:\*|[\w.\-@$]+):((?:[^\s:\\]|\\[:\\])+)[ \t]*\r?(?m:$)"
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
_ACCOUNT = Nearby(r"\b(?:user|role|grant|link|account|create|alter)\b")


def _certain(value: bytes) -> bool:
    return b" " not in value and password(value, certain=True)


def _unquoted(value: bytes) -> bytes:
    """Without the quotes around it, and without one of which the other stands outside; a pair inside is its own."""
    value = value.rstrip(b";")
    while value[:1] in _QUOTES and value[:1] == value[-1:] and len(value) > 1:
        value = value[1:-1]
    for mark in _QUOTES:
        if value.count(mark) % 2:
            value = value.removeprefix(mark) if value.startswith(mark) else value.removesuffix(mark)
    return value


_QUOTES = (b"'", b'"')


def _said_to_a_database(data: bytes, found: Match) -> bool:
    """Whether `identified by` is a word of SQL and none of a sentence."""
    said = (found.group() or b"").lower()
    if not said.startswith(b"identified"):
        return not said.startswith((b'password"]', b"password']"))
    return _ACCOUNT.search(data, max(0, found.start() - 200), found.start()) is not None


def _no_member(_data: bytes, found: Match) -> bool:
    """Whether it is Redis that is spoken of, and no program that has a name like its setting."""
    return _MEMBER.search(found.group() or b"") is None


_MEMBER = re.compile(rb"[mM]asterAuth\s+[a-z_]+\.?\Z")
_ANCHOR = re.compile(rb"\*.*\*")
"""How the help of Vim marks what can be looked up."""


def _in_a_connection_string(data: bytes, found: Match) -> bool:
    """Whether the line has other members of a connection string."""
    start, end = next(found.start(group) for group in (1, 2) if found.start(group) >= 0), found.end()
    begin = line_start(data, start, _LINE_REACH)
    stop = data.find(b"\n", end - 1, end + _LINE_REACH)
    line = data[begin : stop if stop >= 0 else min(len(data), end + _LINE_REACH)]
    return b";" in line and _DSN.search(line) is not None


_LINE_REACH = 1000


def _any(value: bytes) -> bool:
    return password(value, certain=True)


def _key(value: bytes) -> bool:
    return token(value, 8)


def _kept(value: bytes) -> bool:
    """Whether this is a password as systems keep it; where `$` stands for a variable it is written twice."""
    return crypted(value.replace(b"$$", b"$"))


def _no_number(value: bytes) -> bool:
    return password(value, certain=True) and not value.isdigit()


def _no_address(value: bytes) -> bool:
    return password(value) and b"//" not in value


def _given(value: bytes) -> bool:
    return not value.startswith(b"-") and (crypted(value) or password(value, certain=True))


def _likely(value: bytes) -> bool:
    return not value.startswith(b"-") and (crypted(value) or password(value))


def _of_ppp(_data: bytes, found: Match) -> bool:
    """Whether it stands in quotes, or no sentence has it as a word."""
    return found.start(1) >= 0 or strong(found.group(2) or b"")


def _drawn(value: bytes) -> bool:
    return not placeholder(value)


def _alone(value: bytes) -> bool:
    return token(value, 8) or strong(value)


def _behind_number(value: bytes) -> bool:
    """Whether digits and letters stand in it as in no word: `094F471A1A0A`, `$1$mERr$hx5r`, `Kd83jsk`."""
    digits = sum(48 <= byte <= 57 for byte in value)
    letters = sum(65 <= byte <= 90 or 97 <= byte <= 122 for byte in value)
    hidden = _CRYPTED.match(value) is not None and b"..." not in value
    return (
        len(value) >= 6
        and _ANCHOR.fullmatch(value) is None
        and digits >= 1
        and letters >= 1
        and (password(value) or hidden)
    )


def _behind_head(value: bytes) -> bool:
    bare = value.rstrip(_ENDS)
    return crypted(value) or (
        password(bare) and classes(bare) > 1 and not _CODE.intersection(value) and value[:1] != b"("
    )


_HASH = "$6$rounds=5000$Zk4mp9QqLwXy$" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3kL5mN7pQ9rS1tU3vW5xY7zA9bC1d"
_HEX = "9f86d081884c7d65e1a2c3b4d5f60718"


def _secret_of(
    name: str,
    pattern: Nearby,
    *finds: str,
    spares: tuple[str, ...] = (),
    where: Callable[[bytes, Match], bool] = anywhere,
) -> Rule:
    """A rule for what is certainly a password, mostly in quotes of some kind."""
    return Rule(name=name, pattern=pattern, finds=finds, spares=spares, judge=_certain, narrowed=_unquoted, where=where)


RULES: tuple[Rule, ...] = (
    _secret_of("netrc", _NETRC, "machine db.shop.com login jo password «Zk4mp9QqLw»", spares=("machine a login b",)),
    _secret_of("netrc-line", _NETRC_LINE, "login jo password «Zk4mp9QqLw»\n", spares=("login jo password changeme",)),
    _secret_of(
        "redis", _REDIS, "requirepass «Zk4mp9QqLw»\n",
        spares=("# requirepass foobared\n", "\nMasterAuth field of it\n"), where=_no_member,
    ),
    _secret_of(
        "redis-said", _REDIS_SAID, 'CONFIG SET "requirepass" "«Zk4mp9QqLw»"', "masterAuth: «Zk4mp9QqLw»",
        spares=("requirepass ${PASS}", "auth = cluster.masterAuth\n  missing = not auth"), where=_no_member,
    ),
    _secret_of("redis-acl", _REDIS_ACL, "user worker on >«Zk4mp9QqLw» ~jobs:* +@all", spares=("user worker on ~*",)),
    _secret_of("shared-key", _SHARED, ': PSK "«Zk4mp9QqLw»"', spares=(': PSK "changeme"',)),
    _secret_of("cisco", _CISCO, "enable secret 5 «$1$mERr$hx5rVt7rPNoS4wqbXKX7m0»", spares=("enable secret 0 secret",)),
    _secret_of("cisco-key", _CISCO_KEY, " key 7 «094F471A1A0A»\n", spares=("key 7 of the piano\n",)),
    _secret_of("cisco-plain", _CISCO_PLAIN, "enable password «Zk4mp9QqLw»\n", spares=("enable password required\n",)),
    _secret_of("snmp", _COMMUNITY, "snmp-server community «Zk4mp9Qq» RO", spares=("snmp-server community secret",)),
    _secret_of(
        "sql", _SQL, "CREATE USER jo IDENTIFIED BY '«Zk4mp9QqLw»';", "ALTER ROLE jo WITH PASSWORD '«Zk4mp9QqLw»'",
        spares=("the bird is identified by 'Zk4mp9QqLw'", "ALTER ROLE jo WITH PASSWORD 'changeme'"),
        where=_said_to_a_database,
    ),
    _secret_of(
        "openvpn-login", _SECRET_LINES, "<auth-user-pass>\njo\n«Zk4mp9QqLw»\n</auth-user-pass>",
        spares=("<auth-user-pass>\nuser\npassword\n</auth-user-pass>",),
    ),
    Rule(name="bind", pattern=_BIND_KEY, kind="secret", judge=_key,
         finds=('secret "«Zk4mp9QqLwXy7aB3dE5fG7hJ»";',), spares=('secret "aaaaaaaaaaaaaaaaaaaaaaaa";',)),
    Rule(name="erlang", pattern=_ERLANG, kind="secret", judge=_key,
         finds=("erl -setcookie «Zk4mp9QqLwXy7aB3»",), spares=("erl -setcookie mycookie",)),
    Rule(name="wireguard", pattern=_WIREGUARD, kind="secret", judge=_key,
         finds=("PrivateKey = «yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=»",),
         spares=("PublicKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=",)),
    Rule(name="group-policy", pattern=_GPP, kind="secret", judge=_key,
         finds=('cpassword="«j1Uyj3Vx8TY9LtLZil2uAuZkFQA/4latT76ZwgdHdhw»"',), spares=('cpassword="aaaaaaaaaaaaaaaa"',)),
    Rule(name="htpasswd", pattern=_HTPASSWD, kind="password-hash", judge=_kept, narrowed=bytes.strip,
         finds=("jo:«$apr1$mERr5hx5$rVt7rPNoS4wqbXKX7m0aB1»\n",), spares=("jo:$apr1$short\n",)),
    Rule(name="shadow", pattern=_SHADOW, kind="password-hash", judge=_kept, narrowed=bytes.strip,
         finds=(f"jo:«{_HASH}»:19000:0:99999:7:::",), spares=("jo:!:19000:0:99999:7:::",)),
    Rule(name="pgpass", pattern=_PGPASS, judge=_no_number,
         finds=("db.shop.com:5432:shop:jo:«Zk4mp9QqLw»\n",), spares=("db.shop.com:5432:shop:jo:12345\n",)),
    Rule(name="postfix", pattern=_POSTFIX, judge=_no_address,
         finds=("[smtp.shop.com]:587 jo@shop.com:«Zk4mp9QqLw»\n",), spares=("smtp.shop.com jo:see//there1\n",)),
    Rule(name="redis-auth", pattern=_REDIS_AUTH, judge=password,
         finds=("AUTH worker «Zk4mp9QqLw»\n",), spares=("AUTH required\n",)),
    Rule(name="oracle", pattern=_IDENTIFIED, judge=password,
         finds=("create user jo identified by «Zk4mp9QqLw»;",), spares=("create user jo identified by password;",)),
    Rule(name="openvpn-key", pattern=_OPENVPN, kind="private-key",
         finds=(f"-----BEGIN OpenVPN Static key V1-----\n«{_HEX}»\n-----END",)),
    Rule(name="connection-string", pattern=_DSN_PASSWORD, kind="connection-string", judge=_any,
         narrowed=bytes.rstrip, where=_in_a_connection_string,
         finds=('"Server=db1;Database=shop;User Id=jo;Password=«Zk4mp9QqLw»;"',), spares=("Password=Zk4mp9QqLw;",)),
    Rule(name="server", pattern=_CERTAIN, judge=_given,
         finds=("stats auth jo:«Zk4mp9QqLw»", "bindpw «Zk4mp9QqLw»", "Unseal Key 1: «Zk4mp9QqLwXy7aB3dE5f»"),
         spares=("bindpw changeme",)),
    Rule(name="ftp-script", pattern=_FTP_USER, judge=_given,
         finds=("ftp -n db1 <<E\nuser jo «Zk4mp9QqLw»\n",), spares=("ftp -n db1 <<E\nuser jo $PASS\n",)),
    Rule(name="ppp", pattern=_PPP, judge=_likely, where=_of_ppp,
         finds=('jo * "«Zk4mp9QqLw»"\n', "jo * «Zk4!mp9QqLw»\n"), spares=("jo * and others\n",)),
    Rule(name="raw-login", pattern=_RAW_LOGIN, judge=_likely,
         finds=("USER jo\nPASS «Zk4mp9QqLw»\n",), spares=("> PASS pass@fwpass\n",)),
    Rule(name="chat-login", pattern=_CHAT_LOGIN, judge=_likely,
         finds=("/msg NickServ IDENTIFY «Zk4mp9QqLw»",), spares=("/msg NickServ IDENTIFY password",)),
    Rule(name="irc", pattern=_IRC_PASS, judge=_likely, finds=("PASS «Zk4mp9QqLw»\r\nNICK jo",), spares=("PASS a\nNICK b",)),
    Rule(name="redis-users", pattern=_ACL, within=_ACL_LINE, judge=_given,
         finds=("user worker on >«Zk4mp9QqLw» >«Xy7aB3dE5f» ~*",), spares=("user worker on nopass ~*",)),
    Rule(name="chpasswd", pattern=_USER_LINE, within=_CHPASSWD, judge=_given,
         finds=("chpasswd:\n  list:\n  - jo:«Zk4mp9QqLw»\n",), spares=("chpasswd:\n  list:\n  - jo:password\n",)),
    Rule(name="wordpress", pattern=_SALTED, kind="secret", judge=_drawn,
         finds=("define('AUTH_KEY', '«Zk4mp9QqLwXy7aB3dE5fG7hJ»');",),
         spares=("define('AUTH_KEY', 'put your unique phrase here');",)),
    Rule(name="kaggle", pattern=_KAGGLE, kind="secret", judge=_drawn,
         finds=(f'{{"username":"jo","key":"«{_HEX}»"}}',), spares=(f'{{"key":"{_HEX}"}}',)),
    Rule(name="composer", pattern=_HOST_TOKEN, kind="secret", judge=_drawn,
         finds=('"github-oauth": {"github.com": "«Zk4mp9QqLwXy7aB3»"}',),
         spares=('"github-oauth": {"github.com": "<your-token-here>"}',)),
    Rule(name="windows", pattern=_DUMPED, kind="secret", judge=_drawn,
         finds=(f"jo:1001:{_HEX}:«{_HEX}»:::",), spares=(f"jo:1001:{_HEX}:{'0' * 32}:::",)),
    Rule(name="below", pattern=_BELOW, judge=_alone,
         finds=("Your password:\n\n  «Zk4!mp9QqLw»\n",), spares=("Your password:\n\n  required\n",)),
    Rule(name="hidden", pattern=_MARKED, judge=_behind_number,
         finds=("username jo password 7 «094F471A1A0A»", "key-string 7 «094F471A1A0A»"), spares=("key 7 of the piano",)),
    Rule(name="device", pattern=_BEHIND_HEAD, judge=_behind_head,
         finds=("crypto isakmp key «Zk4mp9QqLw» address 10.0.0.1",), spares=("crypto isakmp key required",)),
    Rule(name="snmp-user", pattern=_PRIVATE, judge=_behind_head,
         finds=("snmp-server user jo ops v3 auth sha Zk4mp9QqLw priv aes 128 «Xy7aB3dE5f»",), spares=("md5 of des keys",)),
    Rule(name="junos", pattern=_JUNOS, finds=('secret "«$9$Zk4mp9QqLw»"',), spares=('secret "$1$abc"',)),
)  # fmt: skip


def find(data: bytes) -> Iterator[Span]:
    """What stands where such a file has its password."""
    for rule in RULES:
        yield from rule.find(data)
    for drawn in _DRAWN.finditer(data):
        result = _RESULT.search(data, drawn.end(), drawn.end() + _REACH)
        if result is not None and _given(result.group(1) or b""):
            yield Span(result.start(1), result.end(1), "password")
