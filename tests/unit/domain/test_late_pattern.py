import re
from importlib import import_module
from pathlib import Path

import pytest

import kagura_kernel
from kagura_kernel.domain.late_pattern import late_pattern

PACKAGE = Path(kagura_kernel.__file__).parent
USERS = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if "import late_pattern" in path.read_text("utf-8")
]


def test_it_finds_what_the_compiled_one_finds():
    late, compiled = (make(r"(A)|b(\d)", re.IGNORECASE) for make in (late_pattern, re.compile))
    assert late.sub("-", "xab1") == compiled.sub("-", "xab1") == "x--"
    assert late.fullmatch("a")[1] == "a"
    assert (late.pattern, late.flags, late.groups) == (compiled.pattern, compiled.flags, compiled.groups)
    with pytest.raises(AttributeError, match="walk"):
        late.walk("a")


@pytest.mark.parametrize("module", USERS)
def test_every_late_pattern_is_one(module):
    kind = type(late_pattern(""))
    found = [value for value in vars(import_module(module)).values() if isinstance(value, kind)]
    assert found
    for one in found:
        assert one.groups >= 0
