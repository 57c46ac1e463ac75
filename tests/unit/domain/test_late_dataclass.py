import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError

import pytest

from kagura_kernel.domain import late_dataclass as late
from kagura_kernel.domain.late_dataclass import KW_ONLY, asdict, field, fields, replace

MAKERS = [late.dataclass, dataclasses.dataclass]


@late.dataclass(frozen=True, slots=True)
class Sent:
    name: str
    size: int = 0


@late.dataclass(frozen=True, slots=True)
class Box:
    name: str
    items: list[int] = field(default_factory=list)
    unseen: int = field(default=1, compare=False, repr=False)
    twice: int = field(init=False, default=0)
    _: KW_ONLY
    colour: str = "red"

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * len(self.items))


def kinds(**said):
    """The same class by both decorators."""

    def of(make):
        class Point:
            x: int
            y: int = 2

        Point.__annotations__ = {"x": "int", "y": "int"}
        Point.__qualname__ = "Point"
        return make(**said)(Point)

    return [of(make) for make in MAKERS]


def told(action, kind):
    try:
        return action(kind)
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("kw_only", [True, False])
def test_it_is_what_the_standard_library_makes(frozen, slots, kw_only):
    ours, theirs = kinds(frozen=frozen, slots=slots, kw_only=kw_only)
    for action in (
        lambda kind: repr(kind(x=1)),
        lambda kind: repr(kind(1, 3)),
        lambda kind: kind(x=1) == kind(x=1, y=2),
        lambda kind: kind(x=1) == kind(x=2),
        lambda kind: kind(x=1) == (1, 2),
        lambda kind: hash(kind(x=1)),
        lambda kind: kind(),
        lambda kind: kind(x=1, z=1),
        lambda kind: setattr(kind(x=1), "x", 2),
        lambda kind: delattr(kind(x=1), "x"),
        lambda kind: kind.__match_args__,
        lambda kind: asdict(replace(kind(x=1), y=5)),
        lambda kind: [one.name for one in fields(kind)],
        lambda kind: hasattr(kind(x=1), "__dict__"),
        lambda kind: repr(copy.deepcopy(kind(x=[1]))),
        lambda kind: str(inspect.signature(kind)).replace("'", "").removesuffix(" -> None"),
    ):
        assert told(action, ours) == told(action, theirs)


def test_factories_keywords_and_what_is_computed_after():
    first, second = Box("a", colour="blue"), Box("a", [1])
    first.items.append(5)
    assert Box("a").items == []
    assert (first.colour, second.twice, Box("a").twice) == ("blue", 2, 0)
    assert repr(second) == "Box(name='a', items=[1], twice=2, colour='red')"
    assert replace(Box("b"), unseen=7) == Box("b")
    with pytest.raises(TypeError, match="positional"):
        Box("a", [], 1, "blue")


def test_frozen_values_are_copied_and_pickled():
    assert pickle.loads(pickle.dumps(Sent("a", 3))) == copy.copy(Sent("a", 3)) == Sent("a", 3)
    assert {Sent("a"): 1}[Sent("a")] == 1


def test_methods_of_its_own_stay():
    @late.dataclass(frozen=True)
    class Own:
        x: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "x", int(text))

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return True

    assert (repr(Own("3")), hash(Own("3")), Own("3") == 4, Own("3").x) == ("own", 7, True, 3)


def test_classes_above_and_below_one_another_fit():
    @late.dataclass(frozen=True)
    class Above:
        x: int

    @dataclasses.dataclass(frozen=True)
    class Below(Above):
        y: int

    @late.dataclass(frozen=True)
    class Third(Below):
        z: int

    class Plain(Above):
        pass

    class Other(Above):
        def __init__(self, text: str) -> None:
            super().__init__(int(text))

    assert repr(Third(1, 2, 3)).endswith("Third(x=1, y=2, z=3)")
    assert Plain(1) != Above(1)
    assert list(inspect.signature(Plain).parameters) == ["x"]
    assert list(inspect.signature(Other).parameters) == ["text"]
    assert repr(Plain(1)).endswith("Plain(x=1)")
    Plain(1).more = 2
    with pytest.raises(FrozenInstanceError):
        Plain(1).x = 2
    with pytest.raises(TypeError, match="non-frozen"):
        late.dataclass(type("Thawed", (Above,), {}))


def test_a_value_that_holds_itself_is_shown():
    @late.dataclass
    class Node:
        next: object = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")
