"""Routers, switches and firewalls: a word for a secret, mostly a number for how it was hidden, and the secret."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.plausible import classes, crypted, password
from kagura_kernel.kit.redaction.spans import Span

_KIND = "password"
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


def find(data: bytes) -> Iterator[Span]:
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
    return Span(found.start(1), found.end(1), _KIND)


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
