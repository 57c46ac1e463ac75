"""Patterns of Python's own engine can take for ever on a few dozen letters; those of redaction end on any."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil, re
import kagura_kernel.kit.redaction as room

patterns = {}
for found in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
    for name, value in vars(importlib.import_module(found.name)).items():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(one, re.Pattern):
                patterns[one.pattern, one.flags] = found.name + "." + name, one
assert len(patterns) > 20
UNITS = ["a", "A", "0", "_", "-", ".", ",", ":", ";", "|", "/", " ", "\\n", "=", "'", '"', "<", "[", "(", "{", "\\\\",
         "aa0", "a.", "a-", "a_", "ab|", "abcdefgh|", "a=", "a b ", "%20", "0a", "Aa", "a:", "a/", "a(", "a[]", "&lt"]
for where, pattern in patterns.values():
    print(where, flush=True)
    for begin in ("", "a", "<"):
        for unit in UNITS:
            for end in ("\\x01", "["):
                text = begin + unit * (120 // len(unit)) + end
                data = text.encode() if isinstance(pattern.pattern, bytes) else text
                pattern.fullmatch(data), pattern.search(data)
"""

REDACTS = """
import sys
from tests.support.redactors import shared_redactor

redactor = shared_redactor()
for text in (
    "password: " + "|".join(["abcdefgh"] * 40) + "[",
    "password: " + "a" * 400 + "\\x01",
    "password: a" + "a_" * 200 + "9'",
    "the password is " + "a" * 400 + "\\x01",
    "password\\t" + " " * 20000 + "\\x01\\t\\nx\\ty\\n",
):
    print(text[:20], flush=True)
    redactor.redact(text)
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [PROGRAM, REDACTS], ids=["each pattern", "all rules"])
def test_no_few_letters_keep_it_busy_for_ever(program):
    # Whatever is merely slow is done long before this; what is not would take hours.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
