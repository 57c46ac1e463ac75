"""What pydantic finds wrong with a value, in the words of somebody who writes a file of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# Of what pydantic tells, nothing else of its context is told: that may hold what was given.
_FAULTS = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such setting",
    "string_type": "it must be a text, in quotes",  # An id that is all digits, too
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "finite_number": "it must be a number",
    "tuple_type": "it must be a list, in brackets",
    "dict_type": "it must be a table",
    "model_type": "it must be a table",
    "literal_error": "it must be {expected}",
    "enum": "it must be {expected}",
    "greater_than": "it must be more than {gt:g}",
    "greater_than_equal": "it must be at least {ge:g}",
    "less_than": "it must be less than {lt:g}",
    "less_than_equal": "it must be at most {le:g}",
}


def value_fault(problem: ErrorDetails) -> str:
    """What is wrong, as the end of a line that begins with the value's place."""
    if problem["type"] not in _FAULTS:
        return problem["msg"].removeprefix("Value error, ")
    return _FAULTS[problem["type"]].format_map(problem.get("ctx", {}))
