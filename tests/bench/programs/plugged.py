"""Calls a plugin's function from a box: `plugged.py COUNT THREADS`; prints the seconds that all calls took."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from kagura_host import small  # type: ignore[import-not-found]

count, threads = map(int, sys.argv[1:])
small.echo(0)  # the first call opens a connection
began = perf_counter()
if threads > 1:
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(small.echo, range(count)))
else:
    for number in range(count):
        small.echo(number)
print(perf_counter() - began)
