"""A box's /etc: only what programs need, made of copies and constants, nothing that names the host or its people.

A box whose root is writable has more of it, and the parts of /var, that dpkg and apt need. It is an allow-list, since
/etc is where a host keeps its keys: what is not named here is not there. Shown are files of the distribution that
anybody may read: the conventions of adduser, dpkg and debconf, the keys that signed packages are checked with, and the
sources of packages. Written anew are accounts (those of the system, without passwords; nobody's own) and apt's
settings, because the host's may hold proxies, tokens and programs to run. A source with a user name in its address is
left out whole. Not shown, among others: /etc/shadow, ssh, ssl/private, machine-id, apt/auth.conf and auth.conf.d,
apt/apt.conf and apt.conf.d, environment, profile.d, cron; of /var only dpkg's database, and which packages apt
installed by itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat

_READ, _ENTERED = 0o004, 0o005

BOX_USER = "agent"
BOX_UID = 1000

_WRITTEN = {
    "passwd": f"{BOX_USER}:x:{BOX_UID}:{BOX_UID}:agent:/home/agent:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": f"{BOX_USER}:x:{BOX_UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost box\n::1 localhost\n",
    "hostname": "box\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}

# Public data of the distribution. Links inside are kept as links, the named entries themselves are followed.
_COPIED = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates.conf",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "crypto-policies/back-ends",
    "localtime",
    "timezone",
    "os-release",
    "debian_version",
    "mime.types",
    "magic",
    "services",
    "protocols",
    "fonts",
    "terminfo",
    "inputrc",
    "python3",
    "ImageMagick-6",
    "ImageMagick-7",
)


def write_etc(target: str, source: str = "/etc") -> None:
    """Fill the empty directory `target`; what the host does not have, or does not let us read, is left out."""
    for name, text in _WRITTEN.items():
        _write_new(f"{target}/{name}", text.encode())
    for name in _COPIED:
        copy_public(f"{source}/{name}", f"{target}/{name}")


def copy_public(source: str, target: str) -> None:
    """Copy a file or a directory as far as everybody may read it; one that is missing is left out."""
    if os.path.exists(source):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _copy(source, target)


def _copy(source: str, target: str) -> None:
    with contextlib.suppress(PermissionError, FileNotFoundError):
        mode = os.stat(source).st_mode
        if stat.S_ISDIR(mode) and mode & _ENTERED == _ENTERED:
            os.makedirs(target, 0o755, exist_ok=True)
            with os.scandir(source) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        os.symlink(os.readlink(entry.path), f"{target}/{entry.name}")
                    else:
                        _copy(entry.path, f"{target}/{entry.name}")
        # Root may read what is nobody's business; a box may not.
        elif stat.S_ISREG(mode) and mode & _READ:
            with open(source, "rb") as file:
                _write_new(target, file.read())


def _write_new(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


_SYSTEM_IDS = 1000
_NOBODY = 65534

_SHOWN = (
    *("adduser.conf", "deluser.conf", "login.defs", "shells", "skel", "ucf.conf", "debconf.conf", "dpkg"),
    *("bash.bashrc", "profile", "host.conf", "networks", "rpc", "ethertypes", "issue", "issue.net", "libaudit.conf"),
    *("locale.alias", "locale.gen", "manpath.config", "magic.mime", "mailcap", "mailcap.order", "xml", "sgml"),
    *(f"pam.d/{name}" for name in ("common-account", "common-auth", "common-password", "common-session")),
    *(f"pam.d/{name}" for name in ("common-session-noninteractive", "other", "passwd", "chpasswd", "login")),
    *(f"pam.d/{name}" for name in ("newusers", "chsh", "chfn", "su", "su-l", "runuser", "runuser-l")),
    *("apt/trusted.gpg", "apt/trusted.gpg.d", "apt/keyrings", "apt/preferences", "apt/preferences.d"),
)
_DIRECTORIES = (
    *("apt/apt.conf.d", "apt/auth.conf.d", "apt/sources.list.d", "cron.d", "cron.daily", "default", "init.d"),
    *("logrotate.d", "pam.d", "profile.d", "security", "ssl/private", "systemd/system", "tmpfiles.d"),
    *(f"rc{level}.d" for level in "0123456S"),
)
_VAR = (
    *("backups", "cache/apt/archives/partial", "cache/debconf", "cache/ldconfig", "lib/apt/lists/partial"),
    *("lib/apt/mirrors/partial", "lib/apt/periodic", "lib/dpkg", "lib/misc", "lib/pam", "lib/ucf", "lib/systemd"),
    *("local", "log/apt", "mail", "opt", "spool"),
)
_TOPS = ("boot", "home", "media", "mnt", "opt", "root", "run", "srv", "sys", "tmp", "workspace")
# Without them nobody becomes another user (`su`, `runuser`).
_EMPTY = ("environment", "security/limits.conf", "security/pam_env.conf")
_APT_SETTINGS = """\
// A command in a box has no terminal to draw on, and descriptions of packages in every language fill memory.
Dpkg::Use-Pty "false";
Acquire::Languages "none";
Acquire::Retries "0";
// A package lies in the box's memory until it is installed, not longer.
APT::Keep-Downloaded-Packages "false";
"""

# User information in the address of a source: everything up to an @ before the path begins.
_NAMED_USER = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]*@", re.IGNORECASE)


def write_system(tree: str, host: str = "") -> None:
    """Fill the empty directory `tree`, which becomes a box's root, with all but the programs.

    `host` is a prefix of the host's root directory, for tests. Raises `OSError` when there is no room.
    """
    for name in (*_TOPS, *(f"var/{name}" for name in _VAR), *(f"etc/{name}" for name in _DIRECTORIES)):
        os.makedirs(f"{tree}/{name}", exist_ok=True)
    for name in ("root", "etc/ssl/private", "etc/apt/auth.conf.d", "var/cache/ldconfig"):
        os.chmod(f"{tree}/{name}", 0o700)
    write_etc(f"{tree}/etc", f"{host}/etc")
    for name in _SHOWN:
        copy_public(f"{host}/etc/{name}", f"{tree}/etc/{name}")
    _write_accounts(f"{tree}/etc", f"{host}/etc")
    _write_sources(f"{tree}/etc/apt", f"{host}/etc/apt")
    _write(f"{tree}/etc/apt/apt.conf.d/00box", _APT_SETTINGS)
    for name in _EMPTY:
        _write(f"{tree}/etc/{name}", "")
    copy_public(f"{host}/var/lib/apt/extended_states", f"{tree}/var/lib/apt/extended_states")


def _write_accounts(target: str, source: str) -> None:
    """The accounts of the system, which dpkg's database speaks of, and the box's own; nobody can log in to any."""
    users = {fields[0]: fields for fields in _rows(f"{source}/passwd", 7) if _is_system(fields[2])}
    groups = {fields[0]: fields for fields in _rows(f"{source}/group", 4) if _is_system(fields[2])}
    passwd = [f"{name}:x:{row[2]}:{row[3]}:{name}:{row[5]}:{row[6]}" for name, row in users.items() if name != "root"]
    group = [
        f"{name}:x:{row[2]}:{','.join(member for member in row[3].split(',') if member in users)}"
        for name, row in groups.items()
        if name != "root"
    ]
    own = read_text(f"{target}/passwd").splitlines(), read_text(f"{target}/group").splitlines()
    passwd += [line for line in own[0] if line.split(":")[0] not in users]
    group += [line for line in own[1] if line.split(":")[0] not in groups]
    _write(f"{target}/passwd", "\n".join(["root:x:0:0:root:/root:/bin/bash", *passwd, ""]))
    _write(f"{target}/group", "\n".join(["root:x:0:", *group, ""]))
    names = ["root", *(line.split(":")[0] for line in passwd)], ["root", *(line.split(":")[0] for line in group)]
    _write(f"{target}/shadow", "".join(f"{name}:*:19000:0:99999:7:::\n" for name in names[0]), 0o640)
    _write(f"{target}/gshadow", "".join(f"{name}:*::\n" for name in names[1]), 0o640)


def _write_sources(target: str, source: str) -> None:
    """The sources of packages, without any file in which an address names a user."""
    names = ["sources.list"]
    try:
        found = sorted(os.listdir(f"{source}/sources.list.d"))
    except OSError:
        found = []
    names += [f"sources.list.d/{name}" for name in found if name.endswith((".list", ".sources"))]
    for name in names:
        try:
            with open(f"{source}/{name}", encoding="utf-8") as file:
                public = os.fstat(file.fileno()).st_mode & 0o004
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if public and not _NAMED_USER.search(text):
            _write(f"{target}/{name}", text)


def _is_system(number: str) -> bool:
    return number.isdigit() and (0 <= int(number) < _SYSTEM_IDS or int(number) == _NOBODY)


def _rows(path: str, width: int) -> list[list[str]]:
    rows = [line.split(":") for line in read_text(path).splitlines()]
    return [row for row in rows if len(row) == width]


def read_text(path: str) -> str:
    """A file of the host; empty where there is none that can be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str, mode: int = 0o644) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
