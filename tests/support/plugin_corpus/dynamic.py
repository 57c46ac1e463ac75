"""Plugins that make code or names while they run."""

from __future__ import annotations

from kagura_kernel.domain.plugins import Severity
from tests.support.plugin_corpus.sample import Sample, sample

_D = Severity.DANGER


def _d(name: str, trick: str, code: str) -> Sample:
    return sample(name, _D, trick, code)


DYNAMIC: tuple[Sample, ...] = (
    _d("eval", "evaluates what it is given", "def run(a):\n    return eval(a)"),
    _d(
        "exec-blob",
        "executes a packed text",
        'import base64\nexec(base64.b64decode("cHJpbnQoMSk="))\ndef run(a):\n    return a',
    ),
    _d("compile", "compiles what it is given", 'def run(a):\n    return compile(a, "x", "exec")'),
    _d("eval-alias", "eval under another name", "calculate = eval\ndef run(a):\n    return calculate(a)"),
    _d("eval-default", "eval as a default", "def run(a, f=eval):\n    return f(a)"),
    _d(
        "eval-in-dict", "eval in a table", 'TABLE = {"sum": sum, "value": eval}\ndef run(a, b):\n    return TABLE[a](b)'
    ),
    _d("eval-map", "eval handed on", "def run(a):\n    return list(map(eval, a))"),
    _d("eval-decorator", "exec as a decorator", "@exec\n@str\nclass run:\n    pass"),
    _d(
        "eval-operator",
        "exec behind an operator",
        "class A:\n    __getitem__ = lambda self, a: exec(a)\ndef run(a):\n    return A()[a]",
    ),
    _d(
        "eval-class-getitem",
        "eval behind a subscript",
        "class A:\n    __class_getitem__ = eval\ndef run(a):\n    return A[a]",
    ),
    _d(
        "eval-shadowed", "eval before it is shadowed", 'value = eval("1+1")\neval = None\ndef run(a):\n    return value'
    ),
    _d(
        "eval-maybe-shadowed",
        "eval shadowed under a condition",
        "import time\nif time.time() < 0:\n    eval = str\ndef run(a):\n    return eval(a)",
    ),
    _d("eval-deleted-shadow", "eval after its shadow is gone", "eval = str\ndel eval\ndef run(a):\n    return eval(a)"),
    _d(
        "eval-metaclass",
        "eval in a metaclass",
        'class M(type):\n    def __new__(m, n, b, d):\n        eval(d["code"])\n        return type.__new__(m, n, b, d)\nclass A(metaclass=M):\n    code = "1"\ndef run(a):\n    return a',
    ),
    _d(
        "eval-init-subclass",
        "exec in __init_subclass__",
        'class B:\n    def __init_subclass__(cls, code="", **kw):\n        exec(code)\nclass C(B, code="pass"):\n    pass\ndef run(a):\n    return a',
    ),
    _d("eval-comprehension", "eval in a comprehension", "def run(a):\n    return [f(x) for f in (eval,) for x in a]"),
    _d("eval-walrus", "eval in a walrus", "def run(a):\n    return (f := eval) and f(a)"),
    _d("eval-lambda", "eval from a lambda", "pick = lambda: eval\ndef run(a):\n    return pick()(a)"),
    _d("eval-nfkc", "eval in other letters", "def run(a):\n    return ｅｖａｌ(a)"),
    _d("eval-math-letters", "exec in mathematical letters", "def run(a):\n    return 𝐞𝐱𝐞𝐜(a)"),
    _d("eval-fstring", "eval in a nested f-string", "def run(a):\n    return f\"{f'{eval(a)}'}\""),
    _d("eval-in-annotation", "eval in an annotation", 'def run(a: eval("1")):\n    return a'),
    _d(
        "eval-in-text-annotation",
        "a text annotation that is evaluated",
        "import functools\n@functools.singledispatch\ndef run(a): ...\n@run.register\ndef _(a: \"__import__('os').system('id')\"): ...",
    ),
    _d(
        "get-type-hints",
        "annotations evaluated",
        'import typing\ndef run(a):\n    run.__annotations__["x"] = a\n    return typing.get_type_hints(run)',
    ),
    _d("builtins-module", "the module of builtins", "import builtins\ndef run(a):\n    return builtins.eval(a)"),
    _d(
        "dunder-builtins",
        "__builtins__",
        'def run(a):\n    b = __builtins__\n    return (b["eval"] if isinstance(b, dict) else b.eval)(a)',
    ),
    _d("globals-builtins", "builtins through globals", 'def run(a):\n    return globals()["__builtins__"]["eval"](a)'),
    _d("function-globals", "builtins through a function", 'def run(a):\n    return run.__globals__["__builtins__"]'),
    _d("print-self", "builtins through a builtin", "def run(a):\n    return print.__self__.eval(a)"),
    _d("vars-builtins", "a namespace by vars", 'import os\ndef run(a):\n    return vars(os)["system"](a)'),
    _d("dict-of-module", "a namespace by __dict__", 'import os\ndef run(a):\n    return os.__dict__["sys" + "tem"](a)'),
    _d("dict-get", "a namespace by a method", 'import os\ndef run(a):\n    return os.__dict__.get("popen")(a)'),
    _d("getattr-joined", "a name in two parts", 'import os\ndef run(a):\n    return getattr(os, "sys" + "tem")(a)'),
    _d("getattr-reversed", "a name backwards", 'import os\ndef run(a):\n    return getattr(os, "metsys"[::-1])(a)'),
    _d(
        "getattr-rot13",
        "a name in rot13",
        'import os, codecs\ndef run(a):\n    return getattr(os, codecs.decode("flfgrz", "rot13"))(a)',
    ),
    _d(
        "getattr-base64",
        "a name in base64",
        'import os, base64\ndef run(a):\n    return getattr(os, base64.b64decode("c3lzdGVt").decode())(a)',
    ),
    _d(
        "getattr-chr",
        "a name from numbers",
        'import os\nN = "".join(chr(c) for c in [115, 121, 115, 116, 101, 109])\ndef run(a):\n    return getattr(os, N)(a)',
    ),
    _d(
        "getattr-map-chr",
        "a name from numbers by map",
        'import os\ndef run(a):\n    return getattr(os, "".join(map(chr, (112, 111, 112, 101, 110))))(a)',
    ),
    _d(
        "getattr-hex",
        "a name from hexadecimal",
        'import os\ndef run(a):\n    return getattr(os, bytes.fromhex("73797374656d").decode())(a)',
    ),
    _d(
        "getattr-format",
        "a name by format",
        'import os\ndef run(a):\n    return getattr(os, "{}{}".format("sys", "tem"))(a)',
    ),
    _d(
        "getattr-percent",
        "a name by percent",
        'import os\ndef run(a):\n    return getattr(os, "%s%s" % ("po", "pen"))(a)',
    ),
    _d(
        "getattr-fstring",
        "a name by an f-string",
        'import os\nP = "sys"\ndef run(a):\n    return getattr(os, f"{P}tem")(a)',
    ),
    _d(
        "getattr-replace",
        "a name by replace",
        'import os\ndef run(a):\n    return getattr(os, "sXsteX".replace("X", "y", 1).replace("X", "m"))(a)',
    ),
    _d(
        "getattr-augmented",
        "a name in steps",
        'import os\nn = "sys"\nn += "tem"\ndef run(a):\n    return getattr(os, n)(a)',
    ),
    _d(
        "getattr-loop",
        "a name in a loop",
        'import os\nn = ""\nfor c in "metsys":\n    n = c + n\ndef run(a):\n    return getattr(os, n)(a)',
    ),
    _d(
        "getattr-translate",
        "a name by a table",
        'import os\nT = str.maketrans("abc", "sym")\ndef run(a):\n    return getattr(os, "abate".translate(T))(a)',
    ),
    _d(
        "getattr-xor",
        "a name by exclusive or",
        'import os\nK = bytes(b ^ 42 for b in b"YSY^OG")\ndef run(a):\n    return getattr(os, K.decode())(a)',
    ),
    _d(
        "getattr-config",
        "a name from the configuration",
        'import os\ndef create_host_functions(config):\n    return {"demo": {"run": getattr(os, config["name"])}}\nSCHEMA = {}',
    ),
    _d(
        "getattr-alias",
        "getattr under another name",
        'import os\ng = getattr\ndef run(a):\n    return g(os, "system")(a)',
    ),
    _d(
        "getattr-partial",
        "getattr in a partial",
        'import os\nfrom functools import partial\ndef run(a):\n    return partial(getattr, os)("system")(a)',
    ),
    _d(
        "getattr-reduce",
        "getattr in a reduction",
        'from functools import reduce\ndef run(a):\n    return reduce(getattr, "__class__.__base__".split("."), ())',
    ),
    _d(
        "getattr-helper",
        "getattr in a helper",
        'def reach(o, n):\n    return getattr(o, n)\ndef run(a):\n    return reach(reach((), "__class__"), "__base__")',
    ),
    _d(
        "attrgetter",
        "operator.attrgetter",
        'from operator import attrgetter\ndef run(a):\n    return attrgetter("__class__.__base__")(a)',
    ),
    _d(
        "attrgetter-module",
        "attrgetter on a module",
        'import os, operator\nGET = operator.attrgetter("system")\ndef run(a):\n    return GET(os)(a)',
    ),
    _d(
        "methodcaller",
        "operator.methodcaller",
        'from operator import methodcaller\ndef run(a):\n    return methodcaller("__subclasses__")(object)',
    ),
    _d("pickle", "unpickles what it is given", "import pickle\ndef run(a):\n    return pickle.loads(a)"),
    _d("marshal", "code from bytes", "import marshal\ndef run(a):\n    return marshal.loads(a)"),
    _d("shelve", "pickles in a file", 'import shelve\ndef run(a):\n    return shelve.open(a)["x"]'),
    _d(
        "code-type",
        "a code object",
        "import types\ndef run(a):\n    return types.FunctionType(run.__code__.replace(co_consts=(a,)), {})",
    ),
    _d("function-type-of", "the type of a function", "def run(a):\n    return type(run)(a, {})"),
    _d("code-module", "an interpreter", "import code\ndef run(a):\n    code.InteractiveInterpreter().runsource(a)"),
    _d("timeit", "timeit's code", "import timeit\ndef run(a):\n    return timeit.timeit(a)"),
    _d(
        "doctest",
        "examples in a docstring",
        'def run(a):\n    """\n    >>> import os; os.system("id")\n    """\nimport doctest\ndoctest.run_docstring_examples(run, {})',
    ),
    _d(
        "logging-config",
        "a logging configuration",
        "import logging.config\ndef run(a):\n    logging.config.dictConfig(a)",
    ),
    _d("breakpoint", "a debugger", "def run(a):\n    breakpoint()"),
    _d("help", "pydoc", "def run(a):\n    help(a)"),
    _d(
        "match-class",
        "an attribute by a pattern",
        "import os\ndef run(a):\n    match os:\n        case object(system=f):\n            return f(a)",
    ),
    _d(
        "match-mapping",
        "a namespace by a pattern",
        'import os\ndef run(a):\n    match vars(os):\n        case {"system": f}:\n            return f(a)',
    ),
)
"""Each makes code or names that no reader sees."""
