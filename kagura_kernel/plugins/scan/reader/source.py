"""Looks at a source as text, before and beside its meaning: what a person sees must be what Python reads."""

from __future__ import annotations

import builtins
import io
import keyword
import re
import unicodedata
from collections.abc import Callable, Iterator

from .rules import ATTRIBUTE, ENVIRONMENT, FILES, NEVER, STANDARD

MAX_BYTES = 1 << 20
MAX_LINE = 20_000
MAX_LINES = 50_000

Report = Callable[[str, str, int], None]
"""Takes a rule, a message and a line."""

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN = frozenset({b"utf-8", b"utf8", b"utf_8", b"u8"})
_ODD = re.compile(
    # Everything but tabs, line ends and what can be seen in ASCII.
    "[\x00-\x08\x0b-\x1f\x7f]"
)
_PAGE = re.compile(r"[ \t]*\f[ \t]*")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")
_LINE_ENDS = frozenset("\x85\u2028\u2029")
_JOINER, _EMOJI, _TEXT = "\u200d", "\ufe0f", "\ufe0e"


def text_of(data: bytes, report: Report) -> str | None:
    """The source as text; None when it cannot be scanned any further."""
    if len(data) > MAX_BYTES:
        report("too-large", f"The file is larger than {MAX_BYTES >> 20} MiB.", 0)
        return None
    if b"\0" in data:
        report("control-character", "There is a NUL in the file.", data[: data.index(b"\0")].count(b"\n") + 1)
        return None
    _look_for_cookies(data, report)
    if data.startswith(b"\xef\xbb\xbf"):
        report("byte-order-mark", "The file begins with a byte order mark; save it without.", 1)
        data = data[3:]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        report("not-utf-8", "The file is not UTF-8.", data[: error.start].count(b"\n") + 1)
        return None
    _look_at_lines(text, report)
    return text


def _look_for_cookies(data: bytes, report: Report) -> None:
    for number, line in enumerate(data.split(b"\n", 2)[:2], start=1):
        for part in line.split(b"\r"):
            found = _COOKIE.match(part)
            if found and found[1].lower() not in _PLAIN:
                name = found[1].decode("ascii", "replace")
                report("coding-cookie", f"The file asks to be read as {name!r}; a plugin's files are UTF-8.", number)


def _look_at_lines(text: str, report: Report) -> None:
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        report("too-large", f"The file has more than {MAX_LINES} lines.", 0)
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            report("long-line", f"The line has more than {MAX_LINE} characters; nobody reads it.", number)
        if not (line.isascii() and line.isprintable()):
            for rule, message in _odd(line.removesuffix("\r")):
                report(rule, message, number)


def _odd(line: str) -> Iterator[tuple[str, str]]:
    if found := _ODD.search(line):
        if found[0] == "\r":
            yield "control-character", "A carriage return in the middle of a line hides what stands before it."
        elif not _PAGE.fullmatch(line):
            yield "control-character", f"The line holds the control character U+{ord(found[0]):04X}."
    if line.isascii():
        return
    for place, letter in enumerate(line):
        if letter > "\x7f" and (why := _unseen(letter, line, place)):
            yield "invisible-character", f"The line holds U+{ord(letter):04X}, {why}."
            return


def _unseen(letter: str, line: str, place: int) -> str:
    """Why a character is not what a person sees; empty when it is."""
    if letter in _LINE_ENDS:
        return "which some programs take for the end of a line"
    if letter in _FILLERS:
        return "which cannot be seen"
    kind = unicodedata.category(letter)
    if kind == "Cc":
        return "a control character"
    if letter in (_EMOJI, _TEXT, _JOINER) and place and _is_picture(line[place - 1]):
        return ""
    if kind == "Cf":
        bidi = unicodedata.bidirectional(letter) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        return "which changes the order in which text is shown" if bidi else "which cannot be seen"
    if "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef":
        return "which cannot be seen and can carry hidden text"
    if kind in ("Co", "Cs"):
        return "which every font shows as something else"
    return ""


def _is_picture(letter: str) -> bool:
    return (
        letter in (_EMOJI, _JOINER, "#", "*") or letter.isdigit() or unicodedata.category(letter) in ("So", "Sk", "Sm")
    )


# Letters of other scripts that look like a Latin one; a map of what is used to deceive, not of all that resembles.
_CYRILLIC = dict(zip("аеорсухіјѕһԁԛԝвкмнтАЕОРСУХІЈЅВКМНТЗԌ", "aeopcyxijshdqwbkmhtAEOPCYXIJSBKMHT3G", strict=True))
_GREEK = dict(zip("οαινρτυχΟΑΒΕΖΗΙΚΜΝΡΤΥΧ", "oaivptuxOABEZHIKMNPTYX", strict=True))
_OTHERS = dict(zip("օոսհցաɑɡıӏⅼ", "onuhgaagill", strict=True))
_LOOKALIKES = str.maketrans({**_CYRILLIC, **_GREEK, **_OTHERS})
_KNOWN = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | STANDARD | {"system", "popen", "self", "cls", "config"}


def check_identifiers(text: str, report: Report) -> None:
    """Report identifiers that change under NFKC, mix scripts, or look like another one of the file."""
    if text.isascii():
        return
    plain: set[str] = set()
    foreign: dict[str, int] = {}
    for name, line in _names(text):
        if name.isascii():
            plain.add(name)
        else:
            foreign.setdefault(name, line)
    for name, line in foreign.items():
        shown = ascii(name)[1:-1]
        if unicodedata.normalize("NFKC", name) != name:
            report("changing-name", f"Python reads the name {shown} as another one.", line)
        elif (like := name.translate(_LOOKALIKES)) in plain or like in _KNOWN or _is_mixed(name):
            report("confusable-name", f"The name {shown} looks like another one.", line)
        else:
            report("foreign-name", f"The name {shown} has letters outside ASCII.", line)


def _names(text: str) -> Iterator[tuple[str, int]]:
    import tokenize

    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME or (token.type == tokenize.ERRORTOKEN and not token.string.isascii()):
                yield token.string, token.start[0]
    except (tokenize.TokenError, IndentationError):
        return  # what does not parse is reported by the parser


def _is_mixed(name: str) -> bool:
    """Whether Latin and Cyrillic letters stand in one name; Greek ones do in honest formulas."""
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "ARMENIAN", "CHEROKEE", "LISU", "COPTIC"})


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
