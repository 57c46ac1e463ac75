"""What the arguments of a call say about what it will do."""

from __future__ import annotations

import ast

from .asking import Meaning
from .folding import NotConstant


def opened_for(meaning: Meaning, full: str, node: ast.Call) -> str:
    """Whether a call of `open` and the like is to `read` or to `write`."""
    at = next((one.value for one in node.keywords if one.arg in ("mode", "flags")), None)
    if at is None and len(node.args) > 1:
        at = node.args[1]
    if at is None:
        return "read"
    text = ast.unparse(at) if full == "os.open" else ""
    try:
        mode = str(meaning.constant(at)) if not text else ""
    except NotConstant:
        mode = "r"
    writes = any(letter in mode for letter in "wax+") or any(word in text for word in ("WRONLY", "RDWR", "CREAT"))
    return "write" if writes else "read"


def lets_callers_reach(node: ast.Call) -> bool:
    """Whether it is `register_instance(a, allow_dotted_names=True)`, by which callers reach any attribute."""
    given = [one.value for one in node.keywords if one.arg == "allow_dotted_names"]
    if isinstance(node.func, ast.Attribute) and node.func.attr == "register_instance":
        given += node.args[1:2]
    return any(not (isinstance(one, ast.Constant) and not one.value) for one in given)
