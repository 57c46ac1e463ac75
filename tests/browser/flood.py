"""A program that says 5,000 things a second, and how the browser's tab bears it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page

SECONDS = 3
A_SECOND = 5000
COUNT = SECONDS * A_SECOND

# Each line is a write of its own. Behind its plan it hurries, ahead of it it waits.
FLOOD = f"""\
import os, time

began = time.perf_counter()
for number in range({COUNT}):
    os.write(1, b"event %05d\\n" % number)
    if number % 50 == 0:
        time.sleep(max(0.0, number / {A_SECOND} - (time.perf_counter() - began)))
print("the last word")
"""

LINES = [f"event {number:05d}" for number in range(COUNT)]

# The longest time in which the page could neither draw nor hear a click.
_WATCH = """() => {
  window.stall = 0;
  let before = performance.now();
  const look = (now) => {
    window.stall = Math.max(window.stall, now - before);
    before = now;
    window.watching = requestAnimationFrame(look);
  };
  window.watching = requestAnimationFrame(look);
}"""


class Stalls:
    """What was seen of the page."""

    longest = 0.0  # Milliseconds between two frames


@contextmanager
def watched(page: Page) -> Iterator[Stalls]:
    """Watch the page's frames for the length of the block."""
    stalls = Stalls()
    page.evaluate(_WATCH)
    yield stalls
    stalls.longest = page.evaluate("() => { cancelAnimationFrame(window.watching); return window.stall; }")
