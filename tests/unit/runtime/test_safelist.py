from __future__ import annotations

import subprocess

import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st

from kagura_kernel.runtime.routing import SAFE_COMMANDS, is_preapproved, judge
from tests.support.effort import examples


@pytest.mark.parametrize(
    "command",
    [
        "pwd",
        "ls -la src",
        "/bin/ls",
        "/usr/bin/wc -l f",
        "cat README.md",
        "head -n 5 f",
        "tail -n 5 f",
        "tail -5 f",
        "wc -l f",
        "echo hello world",
        "grep -rn 'a|b' src",
        "grep -E '(a|b)+' src",
        "grep --files-with-matches --fixed-strings x src",
        "ls --directory src",
        "wc --lines f",
        "rg --files-with-matches --ignore-case x",
        "find . -name '*.py' -type f",
        "find src -mtime -7 -size +10k -print0",
        "sed -n '1,5p' f",
        "sed 's/[0-9]+/N/g' f",
        "sed -E -n 's|a|b|p; $d' f",
        "sed -ne 5q f",
        "sed --expression=5p f",
        "awk '{print $1, $NF}' f",
        "awk -F, '{s += $2} END {print s}' f",
        "awk -F : '/^root/ {print}' f",
        "awk -v n=3 'NR == n' f",
        "rg -n pattern src",
        "rg --pretty pattern",
    ],
)
def test_commands_that_only_look_are_safe(command):
    assert judge(command).reasons == ()
    assert judge(command).safe


@pytest.mark.parametrize(
    "command",
    [
        "",
        " ",
        "''",
        "rm -rf x",
        "bash -c ls",
        "env ls",
        "/tmp/evil/ls",
        "./ls",
        "bin/ls",
        "/usr/local/bin/ls",
        "/bin/../tmp/ls",
        "//bin/ls",
        "X=1 ls",
        "LD_PRELOAD=./x.so ls",
        "ls; rm x",
        "ls\nrm x",
        "ls\rrm x",
        "ls $(rm x)",
        'ls "$(rm x)"',
        "ls `rm x`",
        "ls > x",
        "ls & rm x",
        "(ls)",
        "ls *",
        "ls\0",
        "ｌs",
        "find . -delete",
        "find . -exec rm '{}' ';'",
        "find . -execdir rm '{}' +",
        "find . -ok rm",
        "find . -okdir rm",
        "find . -fprint x",
        "find . -fprintf x y",
        "find . -fprint0 x",
        "find . -fls x",
        "find -L .",
        "find -H link",
        "find . -follow",
        "ls -L",
        "ls -lRL .",
        "ls -H link",
        "ls --dereference",
        "ls --der",
        "grep -R key .",
        "grep -nR key .",
        "grep --dereference-recursive key .",
        "grep --deref key .",
        "grep -f list x",
        "grep -nflist x",
        "grep --file=list x",
        "grep --file list x",
        "grep --fil=list x",
        "wc --files0-from=list",
        "wc --files0=list",
        "rg -L x",
        "rg -nL x",
        "rg --follow x",
        "rg -f list",
        "rg --file=list",
        "rg --ignore-file list x",
        "awk 'BEGIN{ARGV[1]=\"/etc/shadow\";ARGC=2}{print}'",
        "awk 'BEGIN{ARGC=2}'",
        "awk 'BEGIN{print ENVIRON[\"HOME\"]}'",
        "awk 'BEGIN{print PROCINFO[\"pid\"]}'",
        "awk 'BEGIN{SYMTAB[\"x\"]=1}'",
        "awk 'BEGIN{for (f in FUNCTAB) print f}'",
        "find -files0-from x",
        "find . -name x -newaction",
        "sed -i s/a/b/ f",
        "sed -i.bak s/a/b/ f",
        "sed -ni p f",
        "sed -Ei p f",
        "sed --in-place p f",
        "sed --in-pl p f",
        "sed p f -i",
        "sed -f script f",
        "sed -nf script f",
        "sed --file=script f",
        "sed 'w out' f",
        "sed 's/a/b/w out' f",
        "sed 's/a/b/gw out' f",
        "sed 's/a/b/e' f",
        "sed 's/a/id/ge' f",
        "sed e f",
        "sed '1e id' f",
        "sed 'W out' f",
        "sed -n '/x/w out' f",
        "sed 'p;w out' f",
        "sed -e p -e 'w out' f",
        "sed '{w out' f",
        "sed 'r /etc/passwd' f",
        "sed 's/[/]/x/w out' f",
        "sed -- 'w out' f",
        "sed -e -- -i f",
        "awk 'BEGIN {system(\"id\")}'",
        "awk 'BEGIN {\"id\" | getline x}'",
        "awk '{print > \"out\"}' f",
        "awk '{print | \"sh\"}' f",
        "awk -f prog f",
        "awk -fprog f",
        "awk -i inplace '{print}' f",
        "awk --file=prog f",
        "awk -W exec prog",
        "awk -F -f prog",
        "awk '@load \"x\"' f",
        "awk '{print}' -f prog",
        "rg --pre x y",
        "rg --pre=x y",
        "rg --hostname-bin x y",
        "rg --hostname-bin=x y",
        "rg -z x",
        "rg -nz x",
        "rg --search-zip x",
        "rg -e -- --pre=x y",
        "tail -f f",
        "tail -F f",
        "tail -nf f",
        "tail -fn5 f",
        "tail -5f f",
        "tail +5f f",
        "tail --follow f",
        "tail --fol=name f",
        "tail --retry f",
        "tail -n -- -f f",
    ],
)
def test_whatever_may_do_more_is_not_safe(command):
    assert not judge(command).safe
    assert judge(command).reasons


def test_every_reason_is_told():
    reasons = judge("rm -rf x; ls").reasons
    assert reasons == ("command contains shell metacharacters: ;", "command 'rm' is not in the safe list")


def test_a_safe_program_followed_by_another_is_blamed_for_the_shell_only():
    assert judge("ls; rm x").reasons == ("command contains shell metacharacters: ;",)


@pytest.mark.parametrize(
    ("command", "entries", "expected"),
    [
        ("ls src", ("ls",), True),
        ("/bin/ls src", ("ls",), True),
        ("wc -l a.txt", ("wc -l a.txt",), True),
        ("wc -l b.txt", ("wc -l a.txt",), False),
        ("cat a.txt", ("ls",), False),
        ("ls; rm x", ("ls",), False),
        ("rm x", ("rm",), False),
        ("cat /etc/passwd", ("cat",), False),
        ("cat ../secret", ("cat",), False),
        ("cat a/../../secret", ("cat",), False),
        ("grep -f/etc/passwd x", ("grep",), False),
        ("grep --file=/etc/passwd x", ("grep",), False),
        ("grep --file=../x y", ("grep",), False),
        ("cat a..b", ("cat",), True),
    ],
)
def test_settings_pre_approve_only_safe_commands_that_stay_in_the_project(command, entries, expected):
    assert is_preapproved(judge(command), command, entries) is expected


@pytest.mark.parametrize(
    "command",
    [
        "sed 'p" + " " * 100_000 + "X' f",
        "sed '1" + " " * 100_000 + "X' f",
        "sed '" + "p;" * 50_000 + "X' f",
        "sed 's/" + "[a]" * 30_000 + "' f",
        "awk '" + "{" * 100_000 + "' f",
        "tail -" + "x" * 100_000,
        "ls " + "'" * 100_001,
    ],
    ids=["blanks", "address", "commands", "brackets", "awk", "tail", "quotes"],
)
def test_a_very_long_line_is_judged_in_no_time(command):
    assert judge(command).words


# ------------------------------------------------------------- against a real shell

_STUB = """#!/bin/sh
{ printf '%s\\0' "${0##*/}" "$@"; printf '\\n\\0'; } >> "$STUB_LOG"
"""
_EVIL = ("rm", "sh", "id", "x", "a", "evil", "-n", "1", "ls;")


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """A directory of programs that only write down how they were called."""
    root = tmp_path_factory.mktemp("stubs")
    for name in (*SAFE_COMMANDS, *_EVIL):
        program = root / name
        program.write_text(_STUB)
        program.chmod(0o755)
    return root


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def _started(stubs, command, where):
    """Every program that bash starts for a line, as lists of words."""
    log = where / "log"
    log.unlink(missing_ok=True)
    # `pwd` and `echo` are built in; switched off they are looked for like the others.
    subprocess.run(
        ["/bin/bash", "-c", f"enable -n pwd echo\n{command}"],
        env={"PATH": str(stubs), "STUB_LOG": str(log), "HOME": str(where)},
        cwd=where,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
    )
    if not log.exists():
        return []
    calls = log.read_bytes().decode().split("\n\0")[:-1]
    return [call.split("\0")[:-1] for call in calls]


_PIECES = st.one_of(
    st.sampled_from([*SAFE_COMMANDS, "rm", "x", "a", "-n", "1", "--", "-e", "p", "5p", "日本", "=", "X=1"]),
    st.sampled_from(list(" \t\n\r;&|<>()$`\\\"'*?[]{}~!#=%^@+,:./-")),
    st.sampled_from([" ", " ", " ", "'", '"', "'a b'", '"a b"', "$(id)", "${x}", "<(id)", "$'\\x3b'", "&&", "||"]),
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=3),
)
_LINES = st.tuples(st.sampled_from([*SAFE_COMMANDS, ""]), st.lists(_PIECES, max_size=8)).map(
    lambda parts: parts[0] + " " * bool(parts[0]) + "".join(parts[1])
)


@examples(41, 250, "kagura_kernel/runtime/", suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(line=_LINES)
@example(line="ls 'a b' \"c d\"")
@example(line="echo ^a^b %1 a=b @x")
@example(line="echo -n")
@example(line="ls ./-_,:=+@%^")
@example(line="ls a*b")
@example(line="ls a[X]b")
@example(line="ls {a,b}")
@example(line="ls ~")
def test_a_safe_line_starts_exactly_that_one_program(stubs, tmp_path_factory, line):
    judgement = judge(line)
    assume(judgement.safe and "/" not in judgement.words[0])
    where = tmp_path_factory.mktemp("cwd")
    # Something for patterns to match, if any were left alive.
    (where / "aXb").touch()
    assert _started(stubs, line, where) == [list(judgement.words)]
    assert names_in(where) == ["aXb", "log"]


def test_the_stubs_would_show_a_second_program(stubs, tmp_path):
    assert _started(stubs, "ls a; rm b", tmp_path) == [["ls", "a"], ["rm", "b"]]


# ------------------------------------------------------------- against the real programs

_SED_PIECES = st.sampled_from(
    [
        *"pdqwWers/|#,; {}[]^\\1$!g",
        *("s/a/b/", "s/a/touch evil/", "s|a|b|", "/a/", "w evil", "e touch evil", "\\n", "\\/", "[^/]", "[]", "[^]"),
    ]
)


@examples(50, 300, "kagura_kernel/runtime/", suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(script=st.lists(_SED_PIECES, min_size=1, max_size=7).map("".join))
@example(script="s/a/b/g; $!d; /x/,/y/p")
def test_a_safe_sed_script_writes_and_starts_nothing(stubs, tmp_path_factory, script):
    assume("'" not in script and judge(f"sed '{script}' f").safe)
    where = tmp_path_factory.mktemp("sed")
    (where / "f").write_text("touch evil\na\nx\n")
    subprocess.run(
        ["/bin/sed", script, "f"],
        cwd=where,
        env={"PATH": str(stubs), "STUB_LOG": str(where / "log")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert names_in(where) == ["f"]


_AWK_PIECES = st.sampled_from(
    [
        *"{}()|> ;x=@,+1\\",
        *("BEGIN", "END", "print", "printf", '"evil"', '"touch evil"', "system", "getline", "$1", "/a/", "close"),
        *('BEGIN{system("touch evil")}', '{print > "evil"}', '{print | "sh"}'),
    ]
)


@examples(30, 150, "kagura_kernel/runtime/", suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(program=st.lists(_AWK_PIECES, min_size=1, max_size=9).map("".join))
@example(program='{print "evil", $1; x = x + 1}')
def test_a_safe_awk_program_writes_and_starts_nothing(stubs, tmp_path_factory, program):
    assume(judge(f"awk '{program}' f").safe)
    where = tmp_path_factory.mktemp("awk")
    (where / "f").write_text("touch evil\n")
    subprocess.run(
        ["/usr/bin/awk", program, "f"],
        cwd=where,
        env={"PATH": str(stubs), "STUB_LOG": str(where / "log")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert names_in(where) == ["f"]
