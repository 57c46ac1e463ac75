"""A Python that remembers: programs of one run, one after another in the same interpreter of its box."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kagura_kernel.domain.commands import CommandResult
from kagura_kernel.runs.exchange import ExchangeDirectory
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.box import FakeBackend

Program = Callable[..., Awaitable[CommandResult]]


@pytest.fixture
async def exchange() -> AsyncIterator[ExchangeDirectory]:
    backend = FakeBackend()
    made = ExchangeDirectory(await backend.start(BoxSpec()), outputs=("kept", "never"))
    yield made
    await backend.close()


@pytest.fixture
def program(exchange: ExchangeDirectory) -> Program:
    count = 0

    async def run(code: str, **more: Any) -> CommandResult:
        nonlocal count
        count += 1
        command = await exchange.python_call(f"call-{count}", code.encode())
        return await exchange.box.run(replace(command, **more))

    return run


async def test_names_imports_and_the_directory_stay(program: Program) -> None:
    assert (await program("import os, math\nx = 41\nos.makedirs('sub'); os.chdir('sub')")).resident == "new"
    result = await program("print(os.path.basename(os.getcwd()), math.floor(2.5))\nx + 1")
    assert (result.stdout.text, result.resident) == ("sub 2\n42\n", "kept")
    fresh = await program("x", restart=True)
    assert (fresh.exit_code, "NameError" in fresh.stderr.text) == (1, True)


@pytest.mark.parametrize(
    ("code", "exit_code", "said"),
    [
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import asyncio\nawait asyncio.sleep(0)\n1 / 0", 1, "ZeroDivisionError"),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('so it ends')", 1, "so it ends"),
        ("def (", 1, "SyntaxError"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("!ls", 1, "need IPython"),
        ("%timeit 1", 1, "need IPython"),
        ("x = 1\nx?", 1, "need IPython"),
    ],
)
async def test_a_program_that_ends_badly_leaves_the_others_alone(
    program: Program, code: str, exit_code: int, said: str
) -> None:
    await program("before = 1")
    result = await program(code)
    assert (result.exit_code, said in result.stderr.text, "asyncio/" in result.stderr.text) == (exit_code, True, False)
    assert (await program("before")).stdout.text == "1\n"


async def test_a_program_may_await_and_tasks_go_on_with_the_next_one(program: Program) -> None:
    code = (
        "import asyncio\nasync def late(): await asyncio.sleep(0.01); return 'done'\ntask = asyncio.create_task(late())"
    )
    assert (await program(f"{code}\nawait asyncio.sleep(0)")).ok
    assert (await program("await task")).stdout.text == "'done'\n"


async def test_a_module_that_has_changed_is_imported_anew(program: Program, exchange: ExchangeDirectory) -> None:
    for value in (1, 2):
        await exchange.box.files.write("mine.py", f"value = {value}\n".encode())
        assert (await program("import mine\nmine.value")).stdout.text == f"{value}\n"


async def test_each_program_has_a_folder_of_its_own_for_what_it_shows(
    program: Program, exchange: ExchangeDirectory
) -> None:
    shows = "class Shown:\n    def _repr_html_(self): return f'<b>{0}</b>'\n"
    for number in (1, 2):
        await program(shows.format(number) + "Shown()")
        (entry,) = await exchange.box.files.list_dir(exchange.shown(f"call-{number}"))
        assert (await exchange.box.files.read(entry.path)).endswith(f"<b>{number}</b>".encode())


async def test_variables_of_one_call_are_gone_with_it_and_those_of_the_program_stay(program: Program) -> None:
    code = "import os; os.environ['MINE'] = 'x'; print(os.environ['KEY'])"
    assert (await program(code, secret_env={"KEY": "y"})).stdout.text == "y\n"
    look = "print(os.environ.get('KEY'), os.environ['MINE'], 'KEY' in open('/proc/self/environ').read())"
    assert (await program(look)).stdout.text == "None x False\n"


async def test_outputs_are_kept_at_the_end_unless_another_program_left_something_later(
    program: Program, exchange: ExchangeDirectory
) -> None:
    await program("kept = [1]")
    await program("kept.append(2)")
    out = f"{exchange.out}/kept.kagura"

    async def kept() -> Any:
        return json.loads((await exchange.box.files.read(out)).partition(b"\n")[2])

    await exchange.box.run(await exchange.keeping())
    assert await kept() == [1, 2]
    assert [one.path for one in await exchange.box.files.list_dir(exchange.out)] == [out]
    await exchange.box.files.write(f"{exchange.out}/kept.json", b"[3]")
    await program("kept.append(4)")
    await exchange.box.files.write(f"{exchange.out}/kept.json", b"[5]")
    await exchange.box.run(await exchange.keeping())
    assert await kept() == [1, 2]


@pytest.mark.parametrize("code", ["import io, sys; sys.stdout = io.StringIO()", "import sys; sys.stdout.close()"])
async def test_a_program_that_has_done_away_with_its_output_takes_nobody_elses(program: Program, code: str) -> None:
    await program(code)
    result = await program("print('heard')")
    assert (result.stdout.text, result.stderr.text) == ("heard\n", "")


async def test_a_program_that_forks_leaves_one_behind(program: Program) -> None:
    code = "import os\nchild = os.fork()\nif child: os.wait()\nprint('child' if not child else 'parent')"
    assert (await program(code)).stdout.text == "child\nparent\n"
    assert (await program("child > 0")).stdout.text == "True\n"


def test_a_line_that_prepares_figures_for_a_notebook_changes_nothing_here() -> None:
    program = (
        "from kagura_kernel.runs.box_runner.magics import plain\n"
        "exec(plain(b'%matplotlib inline\\n%matplotlib\\nprint(42)\\n', SyntaxError()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stderr, done.stdout) == ("", "Using matplotlib backend: agg\n42\n")
