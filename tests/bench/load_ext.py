"""What `%load_ext kagura_kernel` adds to a kernel, measured inside fresh kernels."""

from __future__ import annotations

import asyncio
from statistics import median

from tests.bench.harness import Bench, Bound, Line, Missing, milliseconds

# The shell has imported IPython long ago; the floor is what remains of importing it once more.
CODE = """
from time import perf_counter
began = perf_counter()
import IPython
imported = perf_counter()
get_ipython().run_line_magic("load_ext", "kagura_kernel")
print("took", imported - began, perf_counter() - imported)
"""


async def loading(bench: Bench) -> list[Line]:
    """A new kernel for each sample: the second import of anything is free."""
    figures = [await asyncio.to_thread(_in_a_kernel) for _ in range(bench.samples)]
    more = median(loaded - imported for imported, loaded in figures)
    what = "`%load_ext kagura_kernel`, beyond a bare `import IPython` in the same kernel"
    bound = Bound("≤ 150 ms", 150)
    return [Line(what, figure=milliseconds(more), bound=bound, samples=bench.samples)]


def _in_a_kernel() -> tuple[float, float]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=["--log-level=ERROR"])
    heard: list[str] = []
    try:

        def hear(message: dict) -> None:
            content = message["content"]
            heard.append(content.get("text", "") or "\n".join(content.get("traceback", [])))

        client.execute_interactive(CODE, timeout=60, output_hook=hear)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    words = "".join(heard).split()
    if "took" not in words:
        raise Missing(f"the extension does not load: {''.join(heard)[-200:]}")
    at = words.index("took")
    return float(words[at + 1]), float(words[at + 2])
