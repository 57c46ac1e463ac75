"""What is sent into a jail: the very bytes of the plugin, and a jailer that any Python can run."""

import base64
import marshal
import subprocess
import sys

import pytest

from kagura_kernel.plugins.frames import HEADER, FrameError, decode
from kagura_kernel.plugins.jail.box import MODULES, STUB, JailLimits, hello, jailer_argv, jailer_payload
from kagura_kernel.plugins.jailer import MAX_HELLO
from tests.support.jails import small_content


def test_every_byte_of_the_plugin_is_as_it_was_read():
    odd = b"# \xc3\xbc\r\nX = 1\x0c\n"
    said = decode(hello(small_content(odd, lib="Y = 2\n"), {"a": [1]}, JailLimits(calls=7))[HEADER.size :], MAX_HELLO)
    assert {path: base64.b64decode(data) for path, data in said["files"].items()} == {
        "plugin.py": odd,
        "lib.py": b"Y = 2\n",
    }
    assert (said["plugin"], said["config"], said["calls"]) == ("small-plugin", {"a": [1]}, 7)


def test_a_configuration_that_is_no_json_is_refused():
    with pytest.raises(FrameError):
        hello(small_content(""), {"a": float("nan")}, JailLimits())


def test_the_jailer_travels_as_code_and_as_text_in_the_order_of_its_imports():
    payload = jailer_payload()
    assert int.from_bytes(payload[:4], "big") == len(payload) - 4
    _, packages, sources, sdk, packed = marshal.loads(payload[4:])
    assert [name for name, _ in sources] == list(MODULES)
    codes, ours = marshal.loads(packed)
    assert len(codes) == len(MODULES)
    assert sdk.keys() == ours.keys() > {"__init__.py", "faults.py"}
    assert {code.co_filename for code in ours.values()} == {f"kagura_plugin/{path}" for path in sdk}
    assert packages[0] == "kagura_kernel"
    known = set(packages)
    for name, text in sources:
        lines = [line.split() for line in text.splitlines() if line.startswith("from kagura_kernel")]
        assert all(words[1] in known for words in lines), name
        known.add(name)


def test_the_stub_is_a_program_without_site_and_environment():
    compile(STUB, "stub", "exec")
    assert jailer_argv(80)[:5] == ("python3", "-I", "-S", "-B", "-u")
    assert jailer_argv(80)[-1] == "80"


def test_the_jailer_needs_nothing_that_is_installed():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import kagura_kernel.plugins.jailer"
    root = __file__.rpartition("/tests/")[0]
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
