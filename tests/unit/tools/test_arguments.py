import pytest
from hypothesis import given, strategies as st

from kagura_kernel.tools import schema
from kagura_kernel.tools.delegate import DelegateTool
from kagura_kernel.tools.toolbox import argument_problems

SCHEMA = schema.arguments(
    "name",
    name=schema.text("n"),
    note=schema.text("n", empty=True),
    count=schema.whole("c", maximum=10),
    deep=schema.flag("d"),
    items=schema.texts("i"),
    ratio={"type": "number", "minimum": 0},
    colour={"type": "string", "enum": ["red", "blue"]},
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "x"},
        {"name": "x", "note": "", "count": 10, "deep": False, "items": [], "ratio": 0.5, "colour": "red"},
        {"name": "x", "count": 3.0, "items": ["a", "b"], "ratio": 2},
    ],
)
def test_fitting_arguments_have_no_problems(arguments):
    assert argument_problems(SCHEMA, arguments) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'name' is missing"),
        ({"name": ""}, "'name' must not be empty"),
        ({"name": "\ud800"}, "'name' holds half a character (a lone surrogate)"),
        ({"name": 1}, "'name' must be text, not int"),
        ({"name": None}, "'name' must be text, not NoneType"),
        ({"name": "x", "count": "3"}, "'count' must be a whole number, not str"),
        ({"name": "x", "count": 2.5}, "'count' must be a whole number, not float"),
        ({"name": "x", "count": True}, "'count' must be a whole number, not bool"),
        ({"name": "x", "count": float("nan")}, "'count' must be a whole number, not float"),
        ({"name": "x", "count": float("inf")}, "'count' must be a whole number, not float"),
        ({"name": "x", "count": 0}, "'count' must lie between 1 and 10"),
        ({"name": "x", "count": 11}, "'count' must lie between 1 and 10"),
        ({"name": "x", "ratio": -1}, "'ratio' must lie between 0 and ∞"),
        ({"name": "x", "deep": "yes"}, "'deep' must be true or false, not str"),
        ({"name": "x", "items": "a"}, "'items' must be a list of texts"),
        ({"name": "x", "items": [1]}, "'items' must be a list of texts"),
        ({"name": "x", "items": ["a", "\ud800"]}, "'items' holds half a character (a lone surrogate)"),
        ({"name": "x", "colour": "green"}, "'colour' must be one of red, blue"),
        ({"name": "x", "nmae": 1}, "'nmae' is not an argument, did you mean 'name'?"),
        ({"name": "x", "zzz": 1}, "'zzz' is not an argument (known: name, note, count, deep, items, ratio, colour)"),
    ],
)
def test_each_problem_is_told_in_words(arguments, problem):
    assert argument_problems(SCHEMA, arguments) == [problem]


def test_all_problems_are_told_at_once():
    assert len(argument_problems(SCHEMA, {"count": "x", "deep": 1})) == 3


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), _JSON))
def test_no_arguments_break_it(arguments):
    assert all(isinstance(problem, str) for problem in argument_problems(SCHEMA, arguments))


def test_of_what_a_packages_tool_describes_otherwise_nothing_is_said():
    fields = {
        "where": {"type": "object"},
        "either": {"type": ["string", "null"]},
        "any": {},
        "all": True,
        "rows": {"type": "array", "items": {"type": "object"}},
        "list": {"type": "array"},
    }
    given = {"where": {"x": 1}, "either": None, "any": 3, "all": "x", "rows": [{}], "list": [1]}
    assert argument_problems({"type": "object", "properties": fields}, given) == []
    assert argument_problems({"properties": fields}, {"rows": {}, "list": "x"}) == [
        "'rows' must be a list",
        "'list' must be a list",
    ]


async def _nothing(_wanted, _call):
    raise AssertionError


def test_a_share_of_nothing_is_not_handed_on():
    spec = DelegateTool(_nothing, {}).spec
    assert argument_problems(spec.input_schema, {"task": "x", "budget_usd": 0}) == [
        "'budget_usd' must lie between 0.0001 and ∞"
    ]
