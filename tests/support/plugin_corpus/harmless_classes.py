"""Plugins of honest authors with classes that reach attributes by name: descriptors, properties, registries, proxies."""

from __future__ import annotations

from tests.support.plugin_corpus.sample import Sample, sample


def _h(name: str, use: str, code: str) -> Sample:
    return sample(name, None, use, code, permissions={})


HARMLESS_CLASSES: tuple[Sample, ...] = (
    _h(
        "descriptor",
        "a descriptor that keeps its value beside it",
        'class Positive:\n    def __set_name__(self, owner, name):\n        self.name = "_" + name\n    def __get__(self, instance, owner=None):\n        return self if instance is None else getattr(instance, self.name)\n    def __set__(self, instance, value):\n        if value < 0:\n            raise ValueError(f"{self.name[1:]} is below zero")\n        setattr(instance, self.name, value)\nclass Account:\n    balance = Positive()\n    def __init__(self, balance):\n        self.balance = balance\ndef run(a):\n    return Account(a).balance, Account(a).__class__.__name__',
    ),
    _h(
        "descriptor-named",
        "a descriptor that is told its name",
        'class Typed:\n    def __init__(self, name, kind):\n        self.slot = f"_{name}"\n        self.kind = kind\n    def __get__(self, instance, owner=None):\n        return getattr(instance, self.slot)\n    def __set__(self, instance, value):\n        setattr(instance, self.slot, self.kind(value))\nclass Point:\n    x = Typed("x", int)\n    y = Typed("y", float)\ndef run(a):\n    p = Point()\n    p.x, p.y = a\n    return p.x, p.y',
    ),
    _h(
        "lazy-property",
        "a property that is worked out once",
        'def lazy(function):\n    name = "_" + function.__name__ + "_cache"\n    @property\n    def get(self):\n        if not hasattr(self, name):\n            setattr(self, name, function(self))\n        return getattr(self, name)\n    return get\nclass Text:\n    def __init__(self, text):\n        self.text = text\n    @lazy\n    def words(self):\n        return self.text.split()\ndef run(a):\n    return Text(a).words',
    ),
    _h(
        "registry-of-classes",
        "classes that register themselves",
        'class Shape:\n    kinds = {}\n    def __init_subclass__(cls, **more):\n        super().__init_subclass__(**more)\n        Shape.kinds[cls.__name__.lower()] = cls\nclass Square(Shape):\n    def area_of(self, a):\n        return a * a\ndef run(kind, what, a):\n    shape = Shape.kinds[kind]()\n    return getattr(shape, f"{what}_of")(a)',
    ),
    _h(
        "delegation",
        "an object that hands on to another",
        'class Proxy:\n    def __init__(self, inner):\n        self._inner = inner\n        self.calls = []\n    def __getattr__(self, name):\n        if name.startswith("_"):\n            raise AttributeError(name)\n        self.calls.append(name)\n        return getattr(self._inner, name)\ndef run(a):\n    proxy = Proxy([3, 1, 2])\n    proxy.sort()\n    return proxy.calls, proxy.index(a)',
    ),
    _h(
        "visitor-by-kind",
        "a method by the kind of what is visited",
        'class Visitor:\n    def visit(self, node):\n        name = "visit_" + type(node).__name__.lower()\n        return getattr(self, name, self.other)(node)\n    def visit_list(self, node):\n        return [self.visit(one) for one in node]\n    def visit_dict(self, node):\n        return {key: self.visit(value) for key, value in node.items()}\n    def other(self, node):\n        return str(node)\ndef run(a):\n    return Visitor().visit(a)',
    ),
    _h(
        "commands",
        "commands with dashes in their names",
        'class Shell:\n    def handle(self, word, rest):\n        work = getattr(self, ("do_" + word).replace("-", "_"), None)\n        return work(rest) if work else self.unknown(word)\n    def do_say_twice(self, rest):\n        return rest * 2\n    def unknown(self, word):\n        return "no command " + word\ndef run(word, rest):\n    return Shell().handle(word, rest)',
    ),
    _h(
        "record-views",
        "fields with a formatter each",
        'from dataclasses import dataclass, fields\n@dataclass\nclass Order:\n    amount: float = 0.0\n    title: str = ""\n    def _show_amount(self):\n        return f"{self.amount:.2f}"\n    def _show_title(self):\n        return self.title.title()\ndef run(amount, title):\n    order = Order(amount, title)\n    return [getattr(order, "_show_%s" % one.name)() for one in fields(order)]',
    ),
    _h(
        "archive-in-memory",
        "an archive that never touches a disk",
        "import base64, io, zipfile\ndef run(text):\n    with zipfile.ZipFile(io.BytesIO(base64.b64decode(text))) as archive:\n        return [(one.filename, one.file_size) for one in archive.infolist()]",
    ),
)
"""None of them may be refused."""
