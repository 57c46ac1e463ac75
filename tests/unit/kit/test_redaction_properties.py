import enum
import json
import re
import sys
import tomllib
from configparser import RawConfigParser

import nbformat
import pytest
import yaml
from hypothesis import HealthCheck, example, given, strategies as st

from kagura_kernel.domain.kit import MARKER
from tests.support.effort import examples
from tests.support.redaction_corpus import LOOK_ALIKES, SECRETS
from tests.support.redaction_corpus.chance import Chance
from tests.support.redaction_corpus.forms import shape
from tests.support.redaction_corpus.tokens import TOKENS
from tests.support.redaction_corpus.values import VALUES
from tests.support.redactors import shared_redactor

# The same examples each time, so that what fails is about the change at hand; with everything asked for, new ones.
# Many examples beside other work take longer than one test usually may.
pytestmark = pytest.mark.timeout(600)

EXAMPLES = examples(
    60,
    500,
    "kagura_kernel/kit/redaction/",
    "tests/support/redaction_corpus/",
    suppress_health_check=[HealthCheck.too_slow],
)

SECRET = st.builds(
    lambda maker, seed: VALUES[maker](Chance(seed)),
    st.sampled_from([*TOKENS, "password", "word", "hex32", "b64-32", "phrase", "rsa-body", "rsa-one-line"]),
    st.integers(0, 40),
)
TALKING_KEY = st.sampled_from(
    ["password", "DB_PASSWORD", "apiKey", "client_secret", "token", "Authorization", "private_key", "パスワード", "url"]
)
KEY = TALKING_KEY | st.sampled_from(["name", "id", "x-1", "beschreibung", "数", "count", "a b"])
PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
WORDS = st.sampled_from(
    [
        *("the password is ", "password=", "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "\\"),
        *("https://mira:", "@db.example.com/x", '"', "'", "`", "\n", "\r\n", "\u2028", "\x00", "\ufeff", " + ", "= "),
        *(
            "[REDACTED:x]",
            "[REDACTED:",
            "]",
            "<password>",
            "</password>",
            "パスワードは",
            "密码:",
            "das Passwort lautet ",
        ),
        *("mysql -u root -p", "Authorization: Bearer ", "machine a login b password ", "{", "}", "${X}", "é", "😀"),
    ]
)
CORPUS = st.sampled_from([one.text for one in (*SECRETS, *LOOK_ALIKES)])
VALUE = SECRET | PLAIN | st.builds("{}{}{}".format, WORDS, SECRET | PLAIN, WORDS)
SCALAR = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
DOCUMENT = st.recursive(
    SCALAR | VALUE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEY | PLAIN, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def texts(draw):
    """Secrets, words that talk about secrets, whole files and nonsense, joined or cut anywhere."""
    text = "".join(draw(st.lists(WORDS | SECRET | PLAIN | CORPUS, max_size=8)))
    start = draw(st.integers(0, len(text)))
    return text[start:] if draw(st.booleans()) else text[: len(text) - start]


def redact(text):
    return shared_redactor().redact(text).text


@EXAMPLES
@given(texts())
def test_redacting_twice_is_redacting_once(text):
    once = redact(text)
    assert redact(once) == once


@EXAMPLES
@given(texts())
def test_lines_stay_lines_and_findings_are_the_new_markers(text):
    done = shared_redactor().redact(text)
    assert done.text.count("\n") == text.count("\n")
    assert all(MARKER.fullmatch(done.text[one.start : one.end]) for one in done.findings)
    assert len(done.findings) == len(MARKER.findall(done.text)) - len(MARKER.findall(text))


@EXAMPLES
@given(PLAIN, st.sampled_from(LOOK_ALIKES), PLAIN)
def test_nothing_found_is_the_very_same_text(before, look_alike, after):
    text = f"{before}\n{look_alike.text}\n{after}"
    done = shared_redactor().redact(text)
    assert (done.text == text) is (not done.findings)


@EXAMPLES
@given(st.dictionaries(KEY | PLAIN, DOCUMENT, max_size=4), st.sampled_from([None, 0, 2]), st.booleans())
def test_json_still_parses_and_keeps_its_shape(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    left = json.loads(redact(text))
    assert shape_but_for_keys(left) == shape_but_for_keys(value)
    assert numbers(left) == numbers(value)


@EXAMPLES
@given(st.dictionaries(KEY, DOCUMENT, max_size=4), st.sampled_from([None, "'", '"', "|"]), st.booleans())
def test_yaml_still_parses_and_keeps_its_shape(value, style, flow):
    text = yaml.safe_dump(value, default_style=style, default_flow_style=flow, allow_unicode=True, width=1000)
    done = shared_redactor().redact_file(text.encode(), "values.yaml")
    assert done.data is not None
    assert shape(yaml.safe_load(done.data)) == shape(yaml.safe_load(text))
    yaml.safe_load(redact(text))


TOML_VALUE = st.one_of(
    VALUE.map(lambda text: json.dumps(text, ensure_ascii=True).replace("\\/", "/")),
    st.text(st.characters(codec="ascii", categories=["L", "N", "P"], exclude_characters="'"), max_size=40).map(
        "'{}'".format
    ),
    SECRET.filter(lambda text: "'" not in text and "\n" not in text).map("'{}'".format),
    SECRET.map('"""\n{}\n"""'.format),
    st.sampled_from(["1", "true", "2026-03-04", '["a", "b"]', '{ token = "abc" }']),
)
BARE_KEY = st.from_regex(r"[a-zA-Z_]{1,12}", fullmatch=True) | st.sampled_from(
    ["password", "api_key", "token", "SECRET"]
)


@EXAMPLES
@example({"password": '"\\u00e9ATBB2yW4Acq9GFz6Y1t9EwL56nGiSIGQ8JTG-----END RSA PRIVATE KEY-----"'}, "")
@given(st.dictionaries(BARE_KEY, TOML_VALUE, max_size=5), st.sampled_from(["", "# password\n", "[auth.token]\n"]))
def test_toml_still_parses_and_keeps_its_shape(pairs, head):
    text = head + "".join(f"{key} = {value}\n" for key, value in pairs.items())
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a surrogate that JSON may escape and TOML may not
    assert shape(tomllib.loads(redact(text))) == shape(before)


NAME = st.sampled_from(["password", "DB_PASSWORD", "apiKey", "client_secret", "token", "name", "retries", "title"])
WORD = st.sampled_from(["alice", "the report", "pending", "blue", "x1", "3", "list of words", "Zürich", "価格"])
LANGUAGES = {
    "py": (
        *(
            "{name} = '{value}'",
            "cases = [",
            "    # login with {name}='{value}'",
            "    '{word}',",
            "]",
            '"{word}" "{value}"',
        ),
        *(
            'connect("{word}", {name}="{value}")',
            "x = '{word}' + '{value}'",
            "y = ('{value}'\n     '{word}')",
            'log("{word}")',
        ),
        *("z = ''.join(['{value}', '{word}'])", 'f"{word}"', "# {word}", "d = {{'{name}': '{value}', 'b': '{word}'}}"),
    ),
    "js": (
        *(
            'const {name} = "{value}"',
            "let a = '{word}'",
            '// {name}: "{value}"',
            "f({{{name}: '{value}', b: `{word}`}})",
        ),
        *("'{value}' +", "  '{word}'", "<Input label='{word}' {name}='{value}' />", "x ? '{word}' : '{value}'"),
    ),
    "sh": (
        *("export {name}={value}", "mysql -u alice -p'{value}' {word}", "# {name}: {value}", 'echo "{word}" "{value}"'),
        *("curl -H 'Authorization: Bearer {value}' https://a.example.org/", "{name}='{value}' run '{word}'", "{word}"),
    ),
    "yaml": (
        "- {name}: {value}",
        "- a: '{word}'",
        "- {name}: '{value}'  # {word}",
        "# {name}: '{value}'",
        "- [{word}, '{value}']",
    ),
    "toml": ('{name} = "{value}"', 'a = "{word}"', "# {name} = '{value}'", 'list = ["{word}", "{value}"]', "[{name}]"),
    "xml": ("<{name}>{value}</{name}>", "<a>{word}</a>", '<add key="{name}" value="{value}" title="{word}"/>'),
    "sql": ("INSERT INTO t (name, {name}) VALUES ('{word}', '{value}');", "-- {name}: '{value}'", "SELECT '{word}';"),
    "ini": ("[{name}]", "{name} = {value}", "a = {word}", "; {name}='{value}'"),
    "md": ("The {name} is {value}.", "- {word}: `{value}`", "| {name} | {value} |", "'{word}'", "> {name} = '{value}'"),
    "eml": ("> {name}: '{value}'", "> '{word}'", ">> {name} is {value}", "{word}", "| {name}={value}"),
    "diff": ("+{name} = '{value}'", "-{name} = '{word}'", " '{word}',", "@@ -1,3 +1,3 @@", "+    '{value}',"),
    "log": ("2026-03-04 11:02:51 INFO {name}={value}", "2026-03-04 11:02:52 INFO '{word}'", "12 | {name}: '{value}'"),
}
"""Lines of each language."""
MARKED = re.compile(r"(?P<quote>[\"']?)" + MARKER.pattern + r"(?P=quote)")
LINE_ENDS = re.compile(r"(?:\r?\n[ \t]*|\\[rn])*")


@st.composite
def sources(draw):
    """A document of a language, and the suffix of its file."""
    suffix = draw(st.sampled_from(sorted(LANGUAGES)))
    lines = draw(st.lists(st.sampled_from(LANGUAGES[suffix]), min_size=1, max_size=8))
    values = SECRET.filter(str.isprintable) | st.sampled_from(["hunter2x9K!", "Zeta-kilo-4711!", "a b c"])
    return "".join(line.format(name=draw(NAME), value=draw(values), word=draw(WORD)) + "\n" for line in lines), suffix


def only_markers_differ(before, after):
    """Whether `before` comes out when something stands for each marker, its quotes and the ends of a key's lines."""
    kept = MARKED.split(after)[:: MARKED.groups + 1]
    if not before.startswith(kept[0]) or (len(kept) == 1 and before != after):
        return False
    at = len(kept[0])
    for part in kept[1:-1]:
        piece = part[LINE_ENDS.match(part).end() :]
        at = before.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return len(kept) == 1 or before.endswith(kept[-1][LINE_ENDS.match(kept[-1]).end() :], at)


def test_a_change_beside_a_marker_is_seen():
    assert only_markers_differ("a 'x' b\n'c'\n", "a '[REDACTED:x]' b\n'c'\n")
    assert only_markers_differ("a: x\n", 'a: "[REDACTED:x]"\n')
    assert only_markers_differ("k: x\ny\nz end", "k: [REDACTED:x]\n\n end")
    assert not only_markers_differ("a 'x' b\n'c'\n", "a '[REDACTED:x]' b\n''\n")
    assert not only_markers_differ("a b", "a")


@EXAMPLES
@given(sources())
def test_nothing_but_what_a_marker_stands_for_changes_in_any_language(source):
    text, suffix = source
    done = shared_redactor().redact_file(text.encode(), f"file.{suffix}")
    assert done.data is not None
    assert only_markers_differ(text, done.data.decode())
    assert only_markers_differ(text, redact(text))


ENV_VALUE = st.one_of(
    SECRET.filter(str.isprintable),
    st.from_regex(r"[\w./:@+=-]{0,40}", fullmatch=True),
    SECRET.filter(str.isprintable).map("'{}'".format),
    SECRET.filter(str.isprintable).map('"{}"'.format),
)


@EXAMPLES
@given(st.lists(st.tuples(BARE_KEY, ENV_VALUE, st.sampled_from(["", "export ", "# "])), max_size=6))
def test_env_and_ini_lines_keep_their_names_quotes_and_order(lines):
    text = "".join(f"{head}{name}={value}\n" for name, value, head in lines)
    left = redact(text).splitlines()
    assert [line.partition("=")[0] for line in left] == [f"{head}{name}" for name, _, head in lines]
    for line, (_, value, _) in zip(left, lines, strict=True):
        after = line.partition("=")[2]
        assert (after[:1] in "'\"" and after[:1]) == (value[:1] in "'\"" and value[:1])
        assert after[:1] not in ("'", '"') or after[-1] == after[0]
    parser = RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string("[all]\n" + "\n".join(left))


@EXAMPLES
@given(st.lists(st.tuples(st.sampled_from(["code", "markdown"]), texts(), texts()), max_size=4))
def test_notebooks_stay_valid(cells):
    book = nbformat.v4.new_notebook()
    for kind, source, printed in cells:
        if kind == "markdown":
            book.cells.append(nbformat.v4.new_markdown_cell(source))
            continue
        outputs = [
            nbformat.v4.new_output("stream", text=printed),
            nbformat.v4.new_output("execute_result", {"text/plain": printed, "application/json": {"token": printed}}),
            nbformat.v4.new_output("error", ename="Error", evalue=source, traceback=printed.splitlines()),
        ]
        book.cells.append(nbformat.v4.new_code_cell(source, outputs=outputs))
    text = nbformat.writes(book)
    done = shared_redactor().redact_file(text.encode(), "book.ipynb")
    assert done.data is not None
    left = nbformat.reads(done.data.decode(), 4)
    nbformat.validate(left)
    assert [cell.cell_type for cell in left.cells] == [cell.cell_type for cell in book.cells]
    assert [cell.id for cell in left.cells] == [cell.id for cell in book.cells]


@EXAMPLES
@given(texts(), st.lists(st.integers(1, 80), max_size=12))
def test_a_stream_does_not_depend_on_how_its_lines_are_cut(text, sizes):
    # Lines that come together help each other: what is said of one may be told by its neighbour.
    lines = re.findall(r"[^\n\r]*[\n\r]|[^\n\r]+", text)
    whole = shared_redactor().stream()
    expected = "".join(map(whole.feed, lines)) + whole.finish()
    cut = shared_redactor().stream()
    got = "".join(cut.feed(piece) for line in lines for piece in pieces(line, sizes)) + cut.finish()
    assert got == expected


BEGINS = ["so ", "we say that ", "1. ", "seed ", "\x1b]0;make\x07", "\x1b[32m"]
SPLIT = next(secret for secret in SECRETS if secret.kind == "split-literal" and "\n" in secret.text.rstrip())


@example("\x1b]0;make\x07", SPLIT, 1)
@EXAMPLES
@given(PLAIN | st.sampled_from(BEGINS), st.sampled_from(SECRETS), st.integers(1, 80))
def test_what_a_stream_shows_early_never_holds_what_the_whole_takes_out(before, secret, size):
    text = f"{before}{secret.text}\nand so on, as it was said before\n"
    whole = shared_redactor().stream()
    expected = whole.feed(text) + whole.finish()
    cut = shared_redactor().stream()
    shown = ""
    for at in range(0, len(text), size):
        shown += cut.feed(text[at : at + size])
    shown += cut.finish()
    assert not [piece for piece in secret.pieces if piece in shown and piece not in expected]


@EXAMPLES
@given(
    st.binary(max_size=60),
    SECRET.filter(str.isprintable),
    st.binary(max_size=60),
    st.lists(st.integers(1, 40), max_size=8),
)
def test_bytes_that_are_no_text_pass_and_a_secret_between_them_does_not(before, secret, after, sizes):
    data = before + b"\nGITHUB_TOKEN=" + secret.encode() + b"\n" + after
    whole = shared_redactor().byte_filter()
    expected = whole.feed(data) + whole.finish()
    cut = shared_redactor().byte_filter()
    assert b"".join(cut.feed(piece) for piece in pieces(data, sizes)) + cut.finish() == expected
    assert secret.encode() not in expected
    assert expected.startswith(before)
    assert expected.endswith(after)


@EXAMPLES
@given(
    st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]), min_size=1, max_size=60),
    SECRET.filter(str.isprintable),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "latin-1"]),
)
def test_a_file_keeps_its_encoding_and_its_other_lines(words, secret, encoding):
    umlaut = "é" if encoding == "latin-1" else ""
    text = f"# {words}{umlaut}\nGITHUB_TOKEN={secret}\n# the end of it\n"
    done = shared_redactor().redact_file(text.encode(encoding), "settings.env")
    assert done.data is not None
    left = done.data.decode(encoding)
    assert secret not in left
    assert left.splitlines()[0::2] == text.splitlines()[0::2]


def pieces(whole, sizes):
    place = 0
    for size in sizes:
        yield whole[place : place + size]
        place += size
    yield whole[place:]


class Colour(enum.StrEnum):
    RED = "red"


@EXAMPLES
@given(
    st.dictionaries(KEY, DOCUMENT | st.tuples(VALUE, SCALAR) | st.just(Colour.RED) | st.binary(max_size=4), max_size=4)
)
def test_fields_keep_their_shape_and_the_same_object_comes_back_when_nothing_was_found(value):
    left = shared_redactor().fields(value)
    assert shape_but_for_keys(left) == shape_but_for_keys(value)
    assert shared_redactor().fields(left) is left
    assert (left is value) is (left == value)


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "0", "=", '"', "'", "\\", "[", "{", "<", "-", "\n", " ", "密码", "\x00", "aB3", "A" * 63 + "\n"),
        *("-----BEGIN RSA PRIVATE KEY-----\n", "password=", "password: ", "the password is ", "https://a:", "://", "@"),
        *("ghp_", '"ghp_" + ', "<password>", "machine a login b password ", "abandon ", "eyJhbGciOiJIUzI1NiJ9.", "-p"),
        *(
            "[REDACTED:x]",
            "[REDACTED:",
            '{"password":',
            "export A=b\n",
            "パスワードは",
            "\\n",
            "${",
            "QUJD",
            "a=b&",
            "x'y\"",
        ),
    ],
)
def test_the_steps_grow_with_the_text_and_no_faster(unit):
    """Twice the text takes about twice the calls of functions, ours and the library's: loops in loops would show."""
    small, large = (steps(unit * (size // len(unit))) for size in (16_384, 65_536))
    assert large <= 4 * small * 1.3 + 2_000


def steps(text):
    """Calls that redacting the text takes, after it has been done once."""
    redactor = shared_redactor()
    redactor.redact(text)
    count = 0

    def counted(_frame, event, _arg):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        redactor.redact(text)
    finally:
        sys.setprofile(before)
    return count


def shape_but_for_keys(value):
    """Like `shape`, but a key may be a secret too; two of a kind would become one."""
    match value:
        case dict():
            return ("dict", [shape_but_for_keys(part) for part in value.values()])
        case list() | tuple():
            return (type(value).__name__, [shape_but_for_keys(part) for part in value])
        case _:
            return None


def numbers(value):
    """Every number, in order."""
    match value:
        case dict():
            return [one for part in value.values() for one in numbers(part)]
        case list():
            return [one for part in value for one in numbers(part)]
        case bool() | int() | float():
            return [value]
        case _:
            return []
