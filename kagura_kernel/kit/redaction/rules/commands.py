"""Passwords on command lines, in scripts, in histories and in the lines that tools echo."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kagura_kernel.kit.redaction.names import Says, says
from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.rules.assignments import MOUNT_OPTIONS
from kagura_kernel.kit.redaction.spans import Span
from kagura_kernel.kit.redaction.values import password, token

_VALUE = r"(?:\\?\"([^\"\n]+?)\\?\"|\\?'([^'\n]+?)\\?'|([^\s\"'|;&<>`]+))"
_ARGS = r"(?:[^\n|;&]*?\s)?"
"""What may stand between a program and its flag, on one line."""

KIND = "command-password"

_CERTAIN = (
    rf"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mysqlcheck|mysqlshow|mariadb|mariadb-dump|mycli|xtrabackup)\s{_ARGS}-p",
    rf"\bsshpass\s{_ARGS}-p\s*",
    rf"\b(?:redis-cli|keydb-cli|valkey-cli)\s{_ARGS}(?:-a|--pass)[\s=]+",
    rf"\b(?:ldapsearch|ldapadd|ldapmodify|ldapdelete|ldapwhoami|ldappasswd|ldapcompare)\s{_ARGS}-w\s*",
)
"""Behind these stands a password, whatever it looks like."""
_PROGRAMS = (
    rf"\b(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|az|oc|cf|argocd|vault|nomad|heroku|ibmcloud|faas-cli|regctl)\s{_ARGS}login\s{_ARGS}-p[\s=]*",
    rf"\b(?:mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport|mongostat|cqlsh|arangosh|neo4j|cypher-shell|clickhouse-client|influx|couchbase-cli|cbq|dsconf)\s{_ARGS}-p[\s=]*",
    rf"\b(?:sqlcmd|bcp|osql|isql|tsql|db2|ipmitool|zip|unzip|hydra|netexec|nxc|crackmapexec|fping)\s{_ARGS}-[Pp]\s*",
    rf"\b(?:7z|7za|7zr|rar|unrar)\s{_ARGS}-h?p",
    rf"\b(?:twine|psexec|psexec64|winrs|ftp|ncftp|plink|pscp|psftp|pgcli|evil-winrm|cockroach|htpasswd|snowsql|kinit|lpass|bw|svn|hg|rdesktop|xfreerdp|mosquitto_pub|mosquitto_sub|kcat|mqtt|nmcli|dbt|flyway|liquibase|impala-shell|beeline|presto|trino)\s{_ARGS}(?:-p|-P|-pw|-w|/p:|/pass:)[\s=]*",
    rf"\b(?:mosquitto_pub|mosquitto_sub)\s{_ARGS}-P\s*",
    r"(?:-pass(?:in|out)?|--?passphrase|-password)[\s=]+(?:pass:)",
    rf"\bopenssl\s{_ARGS}-[kK]\s+",
    r"\bgh[ \t]+secret[ \t]+set[ \t](?:[^\n|;&]*?[ \t])?(?:-b|--body)[ \t=]*",
    r"\bmosquitto_passwd[ \t]+(?:-\w+[ \t]+)*-\w*b\w*[ \t]+(?:-\w+[ \t]+)*\S+[ \t]+\S+[ \t]+",
    r"\b(?:curl|wget|http|https)\s(?:[^\n|;&]*?\s)?(?:--cert|-E|--proxy-cert)[ \t=]+[\w./~\-]+\.\w+:",
    rf"\b(?:xfreerdp|wfreerdp|xfreerdp3|cmdkey|mstsc|runas|wmic)\s{_ARGS}/(?:p|pass|password):\s*",
    rf"\brclone\s+config\s+(?:create|update|password)\s{_ARGS}(?:pass|password)[\s=]+",
    r"\brclone\s+obscure\s+",
    rf"\bschtasks(?:\.exe)?\s{_ARGS}/rp\s+",
    r"\b(?:wandb|comet|neptune|railway|netlify|surge|vercel)\s+login\s+(?:--?\S+[\s=]+)*",
    rf"\brsync\s{_ARGS}--password-file=<\(\s*(?:echo|printf)\s+(?:-n\s+)?(?:'%s'\s+)?",
    rf"\b(?:keytool|jarsigner|apksigner)\s{_ARGS}-{{1,2}}(?:storepass|keypass|srcstorepass|deststorepass|ks-pass|key-pass|pass)[\s=]+(?:pass:)?",
    r"\bnet\s+use\s+(?:\w:\s+)?\\\\\S+\s+(?:/user:\S+\s+)?",
    r"(?i:\bnet\s+user\s+\S+\s+)",
    r"\brabbitmqctl\s(?:[^\n|;&]*?\s)?(?:add_user|change_password|authenticate_user)\s+\S+\s+",
    r"\bvault\s+(?:login|token\s+lookup|unwrap)\s+(?:-\S+\s+)*(?:token=)?",
    r"\bvault\s+operator\s+unseal\s+",
    r"\b(?:mc|mcli)\s+(?:alias\s+set|config\s+host\s+add)\s+\S+\s+\S+\s+\S+\s+",
    r"\bmc\s+admin\s+user\s+(?:add|svcacct\s+add)\s+\S+\s+\S+\s+",
    r"\bwpa_passphrase\s+(?:\"[^\"\n]*\"|'[^'\n]*'|\S+)\s+",
    r"\b(?:nmcli|iwctl|networksetup)\s[^\n|;&]*?(?:password|--passphrase|wifi-sec\.psk)\s+",
    r"(?i:--from-literal[\s=]+[\"']?[\w.\-]*(?:pass|pwd|secret|token|key|auth|credential)[\w.\-]*=)",
    r"\bhtpasswd[ \t]+(?:-\w+[ \t]+)*?-(?:\w*n\w*b|\w*b\w*n)\w*[ \t]+(?:-\w+[ \t]+)*[^\s\-]\S*[ \t]+(?:#[ \t]*)?",
    r"\bhtpasswd[ \t]+(?:-\w+[ \t]+)*?-[a-mo-zA-Z]*b[a-mo-zA-Z]*[ \t]+(?:-\w+[ \t]+)*[^\s\-]\S*[ \t]+\S+[ \t]+(?:#[ \t]*)?",
    r"\busermod\s(?:[^\n|;&]*?\s)?(?:-p|--password)[\s=]*",
    r"\buseradd\s(?:[^\n|;&]*?\s)?-p\s*",
    r"\b(?:npm|yarn|pnpm)\s+config\s+set\s+\S*(?:_authToken|_auth|_password|npmAuthToken)[\s=]+",
    r"\b(?:aws|gcloud|gh|glab|doctl|flyctl|fly|wrangler|heroku|vercel|netlify|pulumi|poetry|pip|git|composer|bundle|gem|cargo|conda|dotnet|nuget|kubectl|helm|terraform|ngrok|tailscale|snyk|sentry-cli|stripe)\s(?i:[^\n|;&]{0,120}?[\s.](?:[\w.\-]*(?:authtoken|secret|token|password|api[_-]?key|access[_-]?key|http-basic\.\S+\s+\S+|pypi-token\.\S+))[\s=]+)",
    r"\bcargo\s+login\s+(?:--\S+\s+\S+\s+)*",
    r"\bngrok\s+(?:config\s+add-authtoken|authtoken)\s+",
    r"(?:cifs|smb|davfs|mount)\b[^\n]*?\b(?:password|pass)=",
    r"\bsudo\s+(?:-\S+\s+)*-S[^\n]*?<<<\s*",
    r"\b(?:ansible|ansible-playbook)\s[^\n|;&]*?(?:_pass|_password|_become_pass)=",
    r"\b(?:gpg|gpg2)\s[^\n|;&]*?--passphrase[\s=]+",
    r"\b(?:crm|snmpusm|bitwarden|dig|nsupdate|rndc)\s[^\n|;&]*?-y\s+(?:hmac-\w+:)?[\w.\-]+:",
    r"\bConvertTo-SecureString\s+(?:-\w+\s+)*",
    r"(?i:\b(?:etcdctl\s+put|consul\s+kv\s+put|vault\s+kv\s+put|redis-cli\s+set|chamber\s+write|doppler\s+secrets\s+set)\s+\S*(?:pass|secret|token|key|pwd)[\w.\-]*[\s=]+)",
    r"\b(?:put-parameter|keyvault\s+secret\s+set|put-secret-value|create-secret|secrets?\s+(?:set|create|add|put))\b[^\n]*?\s--(?:value|secret-string|body|data)[\s=]+",
    r"\b(?:user_pw|owner_pw|input_pw)\s+",
    r"\bqpdf\s[^\n]*?--encrypt\s+",
    r"\bvirsh\s[^\n]*?secret-set-value\s[^\n]*?--base64\s+",
    r"\bbw\s+(?:login\s+\S+@\S+|unlock)\s+",
    r"\bsecurity\s+add-(?:generic|internet)-password\s[^\n]*?-w\s+",
    r"\b(?:impacket-\w+|\w*(?:psexec|wmiexec|smbexec|secretsdump|mssqlclient)(?:\.py)?)\s[^\n]*?[\w.\-]+/[\w.\-$]+:",
)
"""Behind these stands a password or something else, so that it must look like one."""
_USERS = (
    rf"\b(?:curl|etcdctl|rabbitmqadmin|http|https|xh|wget|httpie|lftp|ncftpput|ncftpget)\s{_ARGS}(?:-[a-zA-Z]*u|-a|--user|--auth|--proxy-user|-U)[\s=]*",
    rf"\b(?:smbclient|rpcclient|smbmap|net|winexe|wmic|smbget)\s{_ARGS}-U[\s=]*",
)
"""Behind these stand a user and a password."""
_HERE = r"\b(?:passwd|chpasswd|sudo|su|login|docker|gh|glab|cryptsetup|gpg|kinit|faas-cli|helm|podman|smbpasswd|vault|openssl|borg|restic|sshfs|vncpasswd|pass|secret-tool|read)\b[^\n]*?<<<\s*"
"""A here-string: what a program reads, mostly a password, or a user and one."""
_SNMP = Nearby(r"\bsnmp(?:get|getnext|walk|set|bulkwalk|bulkget|table|trap|df|status|test|inform)\s[^\n]*")
_SNMP_FLAG = r"\s-[AXc]\s*"
_KEYGEN = Nearby(r"\bssh-keygen\s[^\n]*")
_KEYGEN_FLAG = r"\s-[NP]\s*"
_TWICE = Nearby(
    r"\(\s*echo\s+(?:-n\s+)?[\"']?([^\s\"';]+)[\"']?\s*;\s*(?:sleep\s+\d+\s*;\s*)?echo\s+[\"']?([^\s\"';)]+)[\"']?\s*;?\s*\)\s*\|\s*(?:sudo\s+)?(?:smbpasswd|passwd|vncpasswd|mosquitto_passwd|cryptsetup)"
)
"""A new password, and the same again."""
_FLAG = r"(?:^|[^\w\-])--?(?:[\w-]*-)?(?:password|passwd|passphrase|pass|pwd|pw|storepass|keypass|deststorepass|destkeypass|srcstorepass|srckeypass|ks-pass|requirepass|masterauth|srcpass|destpass|bindpw|secret|secret-string|token|api-?key|apikey|auth-?token|access-?key|secret-?(?:access-?)?key|client-?secret|account-?key|sas-token|encryption-?key|license-?key|private-?key|adminpass\w*|http-password|ftp-password|proxy-password|stdin-password|oauth2-bearer|jwt|setcookie|psk|p12-password|admin-password)(?:\s+|=)"
_ECHO = r"\b(?:echo|printf|yes)\s+(?:-\w+\s+)*(?:'%s(?:\\n)?'\s+|\"%s(?:\\n)?\"\s+)?(?:-\w+\s+)*"
_SEND = r"\b(?:send|expect_send|sendline)\s*(?:--\s+)?\(?\s*"
_PIPED = Nearby(
    r"[\"']?\s*\|\s*(?:\w+=\S+\s+)*(?:sudo\b[^\n|]*-S|(?:sudo\s+)?(?:chpasswd|passwd|docker|podman|gh\s+auth|helm|su\b|smbpasswd|cryptsetup|kinit|gpg|openssl|faas-cli|npm|vault|heroku|argocd|az|oc|restic|borg|saslpasswd2|kubectl\b[^\n|]*/dev/stdin|rclone|pass\s+insert|secret-tool|wpa_passphrase|mysql_config_editor|kopia|htpasswd|argon2|sshpass|keyring))"
)


def _any(*texts: str, ignore_case: bool = False) -> Nearby:
    """One pattern for many forms, so that a text is walked through once; its groups are the value in three guises."""
    return Nearby(f"(?:{'|'.join(texts)}){_VALUE}", ignore_case=ignore_case)


_CERTAINLY = _any(*_CERTAIN)
_MAYBE = _any(*_PROGRAMS)
_USER = _any(*_USERS)
_FLAGGED = _any(_FLAG, ignore_case=True)
_ECHOED = _any(_ECHO)
_SENT = _any(_SEND)
_HERE_STRING = _any(_HERE)
_SNMP_GIVEN = _any(_SNMP_FLAG)
_KEYGEN_GIVEN = _any(_KEYGEN_FLAG)


_SECRET_FLAG = re.compile(rb"--secret[ \t=]+[\"']?\Z")
"""It takes the name of a secret as often as one."""
_HELP = re.compile(rb"[a-z][ \t]{2,}[\"']?\Z")
"""What stands between an option and its explanation in a list of options."""
_OPEN_OPTION = re.compile(
    rb"-(?:next|page|continuation|starting|lock|change|request|client|client-request|idempotency|pagination|sync)-token[\s=]+[\"']?\Z"
)


def find(data: bytes) -> Iterator[Span]:
    """What programs are given as a password or a token."""
    for found in _CERTAINLY.finditer(data):
        yield from _given(data, found, certain=True)
    for pattern in (_MAYBE, _FLAGGED):
        for found in pattern.finditer(data):
            yield from _given(data, found)
    for found in _USER.finditer(data):
        yield from _behind_user(data, found)
    for lines, flagged in ((_SNMP, _SNMP_GIVEN), (_KEYGEN, _KEYGEN_GIVEN)):
        for line in lines.finditer(data):
            for found in flagged.finditer(data, line.start(), line.end()):
                yield from _given(data, found)
    for found in _SENT.finditer(data):
        yield from _typed(data, found)
    yield from _handed_over(data)


def _handed_over(data: bytes) -> Iterator[Span]:
    """What a program reads instead of being given it."""
    for found in _HERE_STRING.finditer(data):
        yield from _read(data, found)
    for found in _ECHOED.finditer(data):
        if _PIPED.match(data, found.end()) is not None:
            yield from _read(data, found)
    for found in _TWICE.finditer(data):
        for group in (1, 2):
            if _believed(found.group(group) or b"", certain=True):
                yield Span(found.start(group), found.end(group), KIND)


def _place(found: Match) -> tuple[int, int, bool]:
    group = next(number for number in (1, 2, 3) if found.group(number) is not None)
    return found.start(group), found.end(group), group != 3


def _given(data: bytes, found: Match, *, certain: bool = False) -> list[Span]:
    start, end, quoted = _place(found)
    value = data[start:end]
    if not quoted:
        value = (value.partition(b",")[0] if MOUNT_OPTIONS.search(value) else value).rstrip(b",)]}:")
        end = start + len(value)
    if (
        value.startswith(b"-")
        or value[:1] in b"[{<"
        or (not quoted and value[:1] == b"(")
        or _HELP.search(data[found.start() : start]) is not None
        or (not quoted and not certain and not value.isascii())
        or _OPEN_OPTION.search(data, max(0, start - 40), start) is not None
        or (b"\n" in data[found.start() : start] and b"\\\n" not in data[found.start() : start])
        or (not quoted and _KEYWORD.match(value))
        or (_SECRET_FLAG.search(data, found.start(), start) is not None and not token(value, 8))
        or (b"=" in value and says(value.partition(b"=")[0]) is not Says.NOTHING)
    ):
        return []
    return [Span(start, end, KIND)] if _believed(value, certain=certain or quoted) else []


def _behind_user(data: bytes, found: Match) -> list[Span]:
    start, end, _ = _place(found)
    value = data[start:end]
    cut = min((at for at in map(value.find, (b":", b"%", b",")) if at >= 0), default=-1)
    user, word = value[:cut], value[cut + 1 :]
    if cut < 0 or user == word or b"//" in value:
        return []
    return [Span(start + cut + 1, end, KIND)] if _believed(word, certain=True) else []


def _read(data: bytes, found: Match) -> list[Span]:
    """What a program reads: a password alone, or behind a user and a colon."""
    start, end, _ = _place(found)
    return _behind_user(data, found) if _USER_NAME.match(data, start, end) else _given(data, found)


_KEYWORD = re.compile(rb"[a-z_]{2,}=[a-z]")
_USER_NAME = re.compile(rb"[A-Za-z_][\w.@\-]*:")


def _typed(data: bytes, found: Match) -> list[Span]:
    """What a script types into a terminal, with the return key."""
    start, end, quoted = _place(found)
    value = data[start:end]
    if not quoted or not value.endswith((b"\\r", b"\\n")):
        return []
    return [Span(start, end - 2, KIND)] if _believed(value[:-2], certain=False) and b" " not in value else []


def _believed(value: bytes, *, certain: bool) -> bool:
    if b" " in value:
        return False
    return token(value, 12) or password(value, certain=certain and not value.isdigit())
