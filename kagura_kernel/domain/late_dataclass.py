"""Data classes whose methods are made when they are first used: a start defines hundreds and makes values of few.

The standard library writes and compiles up to eight functions for each class, nine tenths of what importing a module of
records takes. Here a class gets its fields at once, by the standard library, and its methods later. Everything else is
as ever: `field`, `replace`, `fields` and `asdict` of `dataclasses`, frozen classes, slots, copies and pickles.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["KW_ONLY", "asdict", "dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        init: bool = True,
        repr: bool = True,  # noqa: A002 - the standard library's name
        eq: bool = True,
        order: bool = False,
        frozen: bool = False,
        kw_only: bool = False,
        slots: bool = False,
    ) -> Any:
        """As `dataclasses.dataclass`, for classes without `InitVar`; only type checkers see to the order of fields."""
        shape = {"kw_only": kw_only, "slots": slots}
        written = {"init": init, "repr": repr, "eq": eq, "order": order, "frozen": frozen}

        def made(cls: type) -> type:
            # Classes above and below one another have to fit, and the standard library sees to that.
            if order or any(hasattr(base, "__dataclass_fields__") for base in cls.__bases__):
                return dataclasses.dataclass(cls, **written, **shape)
            return _made(cls, written, shape)

        return made if cls is None else made(cls)


def _made(cls: type, written: dict[str, bool], shape: dict[str, bool]) -> Any:
    # Without a text of its own it would get its signature, for which the methods would have to be there.
    cls.__doc__ = cls.__doc__ or cls.__name__
    # What a class has itself stays; a hash of None is Python's where it has an `__eq__`.
    own = set(vars(cls))
    if vars(cls).get("__hash__") is None and "__eq__" in own:
        own.discard("__hash__")
    kind: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **shape)(cls)
    kind.__dataclass_params__.frozen = written["frozen"]
    late = [name for name in ("init", "repr", "eq") if written[name]]
    if written["frozen"]:
        kind.__setattr__, kind.__delattr__ = _refusing(kind, "assign to"), _refusing(kind, "delete")
        if shape["slots"]:
            kind.__getstate__, kind.__setstate__ = _state, _set_state
    if written["eq"] and "__hash__" not in own:
        if written["frozen"]:
            late.append("hash")
        else:
            kind.__hash__ = None
    for name in late:
        if f"__{name}__" not in own:
            setattr(kind, f"__{name}__", _late(kind, f"__{name}__", _MAKERS[name]))
    if written["init"] and "__init__" not in own:
        kind.__signature__ = _Signature()
    return kind


class _Signature:
    """What a class takes, for whoever asks before the first value is made."""

    def __get__(self, _: object, kind: Any) -> inspect.Signature:
        if vars(kind).get("__signature__") is not self:
            raise AttributeError("__signature__")
        taken = inspect.signature(_init(kind))
        return taken.replace(parameters=list(taken.parameters.values())[1:])


def _late(kind: type, name: str, make: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that puts the real one in its place when it is first called."""

    def method(self: Any, *given: Any, **named: Any) -> Any:
        real = make(kind)
        setattr(kind, name, real)
        return real(self, *given, **named)

    method.__name__, method.__qualname__ = name, f"{kind.__qualname__}.{name}"
    return method


def _init(kind: Any) -> Any:
    own = fields(kind)
    known: dict[str, Any] = {"_set": object.__setattr__}
    known |= {f"_default_{one.name}": one.default for one in own if one.default is not dataclasses.MISSING}
    known |= {f"_make_{one.name}": one.default_factory for one in own if one.default_factory is not dataclasses.MISSING}
    taken = [one for one in own if one.init]
    behind = [_parameter(one.name, known) for one in taken if one.kw_only]
    head = [
        "self",
        *(_parameter(one.name, known) for one in taken if not one.kw_only),
        *(["*", *behind] if behind else ()),
    ]
    form = "_set(self, {0!r}, {1})" if kind.__dataclass_params__.frozen else "self.{0} = {1}"
    body = [form.format(one.name, value) for one in own if (value := _value(one.name, known, given=one.init))]
    body += ["self.__post_init__()"] if hasattr(kind, "__post_init__") else []
    exec(f"def __init__({', '.join(head)}):\n " + "\n ".join(body or ["pass"]), known)  # noqa: S102 - names of fields
    known["__init__"].__qualname__ = f"{kind.__qualname__}.__init__"
    known["__init__"].__annotations__ = {one.name: one.type for one in taken} | {"return": None}
    return known["__init__"]


def _parameter(name: str, known: dict[str, Any]) -> str:
    if f"_default_{name}" in known:
        return f"{name}=_default_{name}"
    # The factory itself stands for a value that was not given: nobody gives it.
    return f"{name}=_make_{name}" if f"_make_{name}" in known else name


def _value(name: str, known: dict[str, Any], *, given: bool) -> str:
    """What a field is set to; empty for one that is neither given nor made."""
    if f"_make_{name}" in known:
        return f"_make_{name}() if {name} is _make_{name} else {name}" if given else f"_make_{name}()"
    # A default without slots is there already, as an attribute of the class.
    return name if given else (f"_default_{name}" if f"_default_{name}" in known else "")


def _repr(kind: Any) -> Callable[..., Any]:
    said = [(one.name, one.type, field()) for one in fields(kind) if one.repr]
    return dataclasses.make_dataclass(kind.__name__, said, init=False, eq=False).__repr__


def _eq(kind: Any) -> Callable[..., Any]:
    values = _values([one.name for one in fields(kind) if one.compare])

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807 - the method of another class
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(kind: Any) -> Callable[..., Any]:
    values = _values([one.name for one in fields(kind) if (one.compare if one.hash is None else one.hash)])

    def __hash__(self: Any) -> int:  # noqa: N807 - the method of another class
        return hash(values(self))

    return __hash__


_MAKERS = {"init": _init, "repr": _repr, "eq": _eq, "hash": _hash}


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of these fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _refusing(kind: Any, what: str) -> Callable[..., None]:
    """What stands against a change of a frozen value; a class below may have attributes of its own."""
    method = "__delattr__" if what == "delete" else "__setattr__"

    def refuse(self: Any, name: str, *value: object) -> None:
        if type(self) is kind or name in kind.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
        getattr(super(kind, self), method)(name, *value)

    return refuse


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
