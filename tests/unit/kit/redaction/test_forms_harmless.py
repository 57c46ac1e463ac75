"""What needs not wait for the scanner: ordinary tasks and words; and what always does."""

import pytest

from kagura_kernel.kit.redaction.engine import KnownFormats, find
from kagura_kernel.kit.redaction.visible import plainly_harmless
from kagura_kernel.testing.false_home import compiled_rules
from tests.support.redaction_corpus import SECRETS


@pytest.mark.parametrize(
    "task",
    [
        *("echo hello", "echo hello > out.txt", "echo one; echo two >> log.txt 2>&1", "ls -la", "git log --oneline -5"),
        *("for n in 1 2 3; do echo $n; done", "cat README.md | head -20 > /tmp/x", "python -m pytest -q tests/unit"),
        *("grep -rn TODO src > todo.txt", "wc -l data.csv", "sed -i s/a/b/ file.txt", "sleep 5 && date"),
        *("rename the function compute_total_price to total", "print('hello')", "Summarise the notebook, please."),
    ],
)
def test_an_ordinary_task_starts_at_once(task):
    assert plainly_harmless(task.encode())


@pytest.mark.parametrize(
    "text",
    [
        *("echo hunter2 | sudo -S ls", "mysql -u root -pS3cr3tRoot", "curl -u me:abc https://x", "user x on >Zk83 ~*"),
        *(
            "ftp://a:b@c/",
            "<pw>hunter2</pw>",
            "sessionid 9dk3kd02kd9slq1mz7",
            "AKIAABCDEFGHIJKLMNOP",
            "s\be\bc\br\be\bt",
        ),
        *("g\0h\0p\0", "se\x1b[1mcret", "pa\u200bss", "aGVsbG8gd29ybGQgZm9v", "abcdefghijklmnopqrstuvwx"),
    ],
)
def test_whatever_could_be_a_secret_waits(text):
    assert not plainly_harmless(text.encode())


def test_no_line_of_the_corpus_in_which_a_secret_is_found_is_called_harmless():
    formats = KnownFormats(compiled_rules())
    lines = {line for one in SECRETS for line in one.text.splitlines()}
    harmless = [line for line in sorted(lines) if plainly_harmless(line.encode())]
    assert harmless
    assert [line for line in harmless if find(line.encode(), formats.scan)] == []


def test_four_bytes_are_no_secret_whatever_they_say():
    assert plainly_harmless(b"code")
    assert not plainly_harmless(b"pw:\xe9\x8d\xb51")
