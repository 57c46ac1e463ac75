"""The drawing at the top of domain/errors.py is the tree that the classes make."""

import inspect
import re
from collections import Counter

from kagura_kernel.domain import errors
from kagura_kernel.domain.errors import KaguraError

LINE = re.compile(r"^ {4}(?P<branches>[│ ├└─]*)(?P<name>\w+)(?: +(?P<code>ERR_\w+))?$", re.MULTILINE)


def coded_classes() -> dict[str, type[KaguraError]]:
    """Classes with a code of their own; one without only shares text between others and is never raised."""
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, KaguraError)]
    return {one.__name__: one for one in found if "code" in vars(one)}


def drawn() -> dict[str, tuple[str, str]]:
    """Parent and code of each name in the drawing; both may be empty."""
    above: list[str] = []
    found = {}
    for line in LINE.finditer(errors.__doc__ or ""):
        depth = len(line["branches"]) // 4
        del above[depth:]
        found[line["name"]] = (above[-1] if above else "", line["code"] or "")
        above.append(line["name"])
    return found


def test_every_class_is_drawn_below_its_parent_and_nothing_else_is():
    classes = coded_classes()
    expected = {
        name: next((base.__name__ for base in one.__mro__[1:] if base.__name__ in classes), "")
        for name, one in classes.items()
    }
    assert {name: parent for name, (parent, _) in drawn().items()} == expected


def test_the_codes_drawn_are_the_codes_there_are():
    classes = coded_classes()
    for name, (_, code) in drawn().items():
        if code:
            assert classes[name].code == code
        else:
            assert classes[name].__subclasses__(), f"{name} is raised, so its code belongs into the drawing"


def test_every_code_is_stable_in_form_and_used_once():
    codes = Counter(one.code for one in coded_classes().values())
    assert [code for code, times in codes.items() if times > 1] == []
    assert all(re.fullmatch(r"ERR_[A-Z]+(_[A-Z]+)*", code) for code in codes)


def test_the_codes_of_the_execution_runtime_are_all_there():
    wanted = {
        "ERR_APPROVAL_ABORTED",
        "ERR_APPROVAL_DENIED",
        "ERR_APPROVAL_REQUIRED",
        "ERR_HOST_COMMAND_TIMEOUT",
        "ERR_HOST_IDLE_TIMEOUT",
        "ERR_SANDBOX_COMMAND_TIMEOUT",
        "ERR_SANDBOX_IDLE_TIMEOUT",
        "ERR_SANDBOX_UNAVAILABLE",
        "ERR_SANDBOX_UNSUPPORTED",
    }
    assert wanted <= {one.code for one in coded_classes().values()}
