"""What can be seen in texts alone: words for whoever audits, paths of the host, packed payloads, format fields."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .gate import MAX_LINE
from .modules import ENVIRONMENT, FILES
from .references import ATTRIBUTE, NEVER

# Each alternative begins with a fixed word, and each repetition has an end: the time is linear.
_INJECTION = re.compile(
    r"(?:ignor\w{1,6}|disregard\w{0,4}|forget|override) (?:\w{1,24} ){0,3}"
    r"(?:previous|prior|above|earlier|preceding|safety|security)\b"
    r"|\b(?:system|admin|developer|auditor|reviewer|ai|llm|model|assistant)"
    r"[ _-](?:override|command"
    r"|prompt|note|notice|message|instruction)s?\s*[:\]>]"
    r"|\bpre-?(?:approved|verified|audited|cleared|vetted)\b"
    r"|\b(?:classify|mark|rate|report|treat|consider|label|score)\w{0,6} (?:\w{1,24} ){0,4}(?:as"
    r"|is) (?:\w{1,24} )?(?:low|safe|benign|harmless|trusted|approved)\b"
    r"|\brisk[ _]?level\W{1,4}(?:to )?[\"']?low\b"
    r"|\b(?:note|attention|message|instructions?|dear|hello|hey) (?:to|for)? ?(?:the |any )?(?:auditor"
    r"|reviewer|ai|llm|language model|assistant)\b"
    r"|\b(?:dear|to the|attention) (?:auditor|reviewer|ai|llm|assistant|claude|gpt)\b"
    r"|\bdo not (?:report|flag|mention|analy[sz]e|audit|scan)\b"
    r"|\b(?:skip|bypass|disable) (?:\w{1,24} ){0,3}(?:audit|analysis|review|scan|security checks?)\b"
    r"|\b(?"
    r":you are|act as|pretend) (?:now )?(?:an?|the|to be) (?:\w{1,24} ){0,2}(?:auditor|assistant|ai|model|reviewer)\b"
    r"|\brecommend(?:ation)?:? ?(?:approve|approval)\b"
    r"|<\|?(?:system|im_start|im_end|assistant|endoftext)\|?>|\[/?INST\]|</?(?:system|instructions?)>"
    r"|\bthis plugin (?:is|has been) (?:completely |fully |perfectly |already |independently ){0,4}"
    r"(?:safe|secure|harmless|trusted|approved|verified|audited|reviewed)\b"
    r"|(?:riskLevel|risk_level|verdict)\\?\"\s{0,9}:\s{0,9}\\?\"(?:low|approve)",
    re.IGNORECASE,
)
_GRAVE_PATH = re.compile(
    r"/proc/(?:self|thread-self|\d+|\{[^}]{0,40}\}|%[ds])/"
    r"(?:mem|root|fd|task|ns|cwd|exe|pagemap|syscall|attr|uid_map|gid_map|setgroups)\b"
    r"|/proc/(?:kcore|kallsyms|sys|sysrq-trigger|kmsg|1)\b|/proc/\*"
    r"|/dev/(?:k?mem|port|kvm|sd[a-z]|nvme|fuse|shm/)|/sys/(?:kernel|fs/cgroup|firmware)"
    r"|/(?:var/)?run/(?:docker|containerd|podman|crio|user|dbus|systemd)|docker\.sock|release_agent|/etc/ld\.so"
)
_ENVIRON_PATH = re.compile(
    r"/proc/(?:self|thread-self|\d+|\{[^}]{0,40}\}|%[ds])/(?:environ|cmdline|maps|status|mounts|mountinfo|auxv|cgroup)\b"
)
_SECRET_PATH = re.compile(
    r"^(?:/etc/(?:shadow|passwd|sudoers)|/root\b|/home/)|(?:^|/)\.(?:ssh|aws|gnupg|kube|docker|netrc|pgpass|"
    r"config/gcloud|bash_history|git-credentials|npmrc|pypirc)\b|\bid_(?:rsa|ed25519)\b"
)
_RUN = re.compile(r"[A-Za-z0-9+/_=-]+|[^A-Za-z0-9+/_=-]+")
_HEX_RUN = re.compile(r"[0-9a-fA-F:\s]+|[^0-9a-fA-F:\s]+")
_LONG = 400  # the shortest that the pattern finds
_FIELD = re.compile(r"\{[^{}]*\}")
_HIDDEN_IN_FIELD = re.compile(
    r"[.\[](_\w*__|[a-z]{1,2}_(?:globals|builtins|locals|frame|code|back)|mro)(?![A-Za-z0-9_])"
)
_NAMING = re.compile(r"__class__\.(?:__name__|__qualname__|__module__|__doc__)$")
_ORDINARY = frozenset({"__name__", "__qualname__", "__module__", "__doc__", "__len__", "__version__"})
_DOTTED = re.compile(r"[\w.\[\]()'\"]{3,200}")
_HIDDEN_PART = re.compile(r"(?:^|\.)(__\w+__)(?=\.|$|\[|\()")
_SUSPICIOUS = frozenset(
    {*(one for one in NEVER if one.startswith("__")), "__class__", "__dict__"}
    | {"popen", "execv", "execve", "posix_spawn", "fork_exec", "_posixsubprocess"}
)


_SIGNS = tuple(
    "ignor|disregard|forget|override|command|prompt|note|notice|message|instruction|approved|verified|audited|cleared|"
    "vetted|low|safe|benign|harmless|trusted|risk|attention|dear|hello|hey|to the|do not|skip|bypass|disable|you are|"
    "act as|pretend|recommend|system|im_start|im_end|assistant|endoftext|inst]|this plugin|verdict".split("|")
)
"""One of these is in whatever the pattern finds; to look for them costs a small part of what the pattern does."""


def injections(text: str) -> Iterator[tuple[int, str]]:
    """The number of each line that speaks to an auditor, with the first words in it that do."""
    small = text.casefold()
    signs = [sign for sign in _SIGNS if sign in small]
    for number, line in enumerate(text.split("\n") if signs else (), start=1):
        folded = line.casefold()
        if any(sign in folded for sign in signs) and (found := _INJECTION.search(line[:MAX_LINE])):
            yield number, found[0]


def of_text(text: str) -> Iterator[tuple[str, str]]:
    """Rule and message for what a text in the code shows by itself."""
    if _GRAVE_PATH.search(text):
        yield "host-path", "A path leads into the system around the jail, not to data."
    if _ENVIRON_PATH.search(text):
        yield ENVIRONMENT, "A path shows the process's environment or its surroundings."
    if _SECRET_PATH.search(text):
        yield FILES, "A path leads to files in which accounts or keys are kept."
    if len(text) >= _LONG and is_packed(text):
        yield "payload-blob", "A long packed text: nobody can read what is in it."
    if "{" in text and is_reaching(text):
        yield "format-attribute", "A format field reaches an attribute that leads into the interpreter."
    if is_hidden_path(text):
        yield ATTRIBUTE, "A text names a path of attributes that leads into the interpreter."


def is_packed(text: str) -> bool:
    """Whether a text is, in a long part of it, Base64 or hexadecimal."""
    runs = (found[0] for found in _RUN.finditer(text))
    if any(len(run) >= _LONG and run[0].isalnum() for run in runs):
        return True
    pairs = (found[0] for found in _HEX_RUN.finditer(text))
    return any(len(run) >= 2 * _LONG and sum(letter.isalnum() for letter in run) * 2 > len(run) for run in pairs)


def is_reaching(text: str) -> bool:
    """Whether a field of a format text reaches a hidden attribute."""
    for field in _FIELD.findall(text):
        name = field[1:-1].partition(":")[0].partition("!")[0]
        if _NAMING.search(name):
            continue
        if any(found not in _ORDINARY for found in _HIDDEN_IN_FIELD.findall(name)):
            return True
    return False


def is_hidden_path(text: str) -> bool:
    """Whether a text is a dotted path with a hidden attribute in it, as `attrgetter` takes it."""
    if "__" not in text or "." not in text or not _DOTTED.fullmatch(text):
        return False
    return any(part in NEVER for part in _HIDDEN_PART.findall(text))


def is_suspicious(text: str) -> bool:
    """Whether a text is, forwards or backwards, the name of something that is never reached honestly."""
    if text in _SUSPICIOUS or (text.startswith("__") and text[::-1] in _SUSPICIOUS):
        return True
    begins, ends = len(text) > len("__x") and text.startswith("__"), len(text) > len("xx__") and text.endswith("__")
    if begins == ends:
        return False
    return any(one.startswith(text) if begins else one.endswith(text) for one in _SUSPICIOUS)
