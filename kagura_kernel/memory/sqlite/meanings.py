"""What memories mean, as vectors beside their rows: made in the background, compared by NumPy.

A memory is found by its words at once, and by its meaning as soon as its vector is made. Nothing waits for that, and
nothing fails when it cannot be made.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.memory.sqlite.connections import Connections

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 32


class TextEncoder(Protocol):
    """Turns texts into vectors of length 1, such that texts of a like meaning lie near each other."""

    @property
    def model(self) -> str:
        """Its name; vectors of one model are never compared with those of another."""
        ...

    def understands(self, text: str) -> bool:
        """Whether it knows the language of a question; it is not asked about any other."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text."""
        ...


class Meanings:
    """The vectors of one model in one file.

    Args:
        connections: To the file.
        encoder: Makes the vectors; asked for memories in a thread of its own, for questions in the caller's.
    """

    def __init__(self, connections: Connections, encoder: TextEncoder) -> None:
        self._connections = connections
        self._encoder = encoder
        self._lock = threading.Lock()
        self._rows: list[int] = []
        self._vectors: NDArray[np.float32] | None = None
        self._last = 0
        self._filling = threading.Lock()
        self._filled = 0
        self._awake = threading.Event()
        self._closing = False
        self._worker = threading.Thread(target=self._work, name="kagura-memory-meanings", daemon=True)
        self._awake.set()
        self._worker.start()

    def wake(self) -> None:
        """There may be memories without a vector."""
        self._awake.set()

    def fill(self) -> int:
        """Make the vectors that are missing, here and now; how many that were."""
        made = 0
        with self._filling:
            while not self._closing and (some := self._without()):
                self._keep([row for row, _ in some], [text for _, text in some])
                # Rows are numbered in the order in which they are written, so that none comes before these.
                self._filled = some[-1][0]
                made += len(some)
        return made

    def similarities(self, text: str) -> Nearness | None:
        """How near every memory is to a text; None where its language is not known."""
        if not self._encoder.understands(text):
            return None
        self._refresh()
        asked = self._encoder.encode([text])[0]
        with self._lock:
            return Nearness(self._rows, self._vectors, asked)

    def drop(self, rows: Sequence[int]) -> None:
        """Forget the vectors of memories that are gone."""
        gone = set(rows)
        with self._lock:
            if self._vectors is None or not gone & set(self._rows):
                return
            kept = [at for at, row in enumerate(self._rows) if row not in gone]
            self._rows, self._vectors = [self._rows[at] for at in kept], self._vectors[kept]

    def close(self) -> None:
        """Let the thread end after the vectors that it is making."""
        self._closing = True
        self._awake.set()
        self._worker.join(timeout=30)

    def _work(self) -> None:
        while not self._closing:
            self._awake.wait()
            self._awake.clear()
            try:
                self.fill()
            except KaguraError:
                # Words still find everything; whoever writes next wakes it again.
                continue

    def _without(self) -> list[tuple[int, str]]:
        sql = f"""SELECT m.n, iif(m.speaker = '', m.text, m.speaker || ': ' || m.text)
            FROM memory m LEFT JOIN meaning v ON v.n = m.n AND v.model = ?
            WHERE v.n IS NULL AND m.n > ? ORDER BY m.n LIMIT {BATCH}"""  # noqa: S608 - a number
        with self._connections.reading() as connection:
            return connection.execute(sql, (self._encoder.model, self._filled)).fetchall()

    def _keep(self, rows: Sequence[int], texts: Sequence[str]) -> None:
        import numpy as np

        vectors = self._encoder.encode(texts).astype(np.float16)
        with self._connections.writing() as connection:
            for row, vector in zip(rows, vectors, strict=True):
                connection.execute(
                    "INSERT OR IGNORE INTO meaning SELECT n, ?, ? FROM memory WHERE n = ?",
                    (self._encoder.model, vector.tobytes(), row),
                )

    def _refresh(self) -> None:
        import numpy as np

        # By the memories' own numbers, which are never given again; those of this table's rows are.
        sql = "SELECT n, vector FROM meaning WHERE model = ? AND n > ? ORDER BY n"
        # Reading within the lock, so that no two threads add the same rows.
        with self._lock, self._connections.reading() as connection:
            new: list[tuple[int, bytes]] = connection.execute(sql, (self._encoder.model, self._last)).fetchall()
            if not new:
                return
            joined = np.frombuffer(b"".join(vector for _, vector in new), dtype=np.float16).reshape(len(new), -1)
            added = joined.astype(np.float32)
            self._vectors = added if self._vectors is None else np.concatenate([self._vectors, added])
            self._rows = [*self._rows, *(row for row, _ in new)]
            self._last = new[-1][0]


class Nearness:
    """How near memories are to one question."""

    def __init__(self, rows: Sequence[int], vectors: NDArray[np.float32] | None, asked: NDArray[np.float32]) -> None:
        self._rows = rows
        self._near = vectors @ asked if vectors is not None and len(rows) else None
        self._at = {row: at for at, row in enumerate(rows)} if self._near is not None else {}

    def nearest(self, most: int) -> Sequence[int]:
        """The rows that are nearest."""
        if self._near is None:
            return ()
        import numpy as np

        few = min(most, len(self._rows))
        best = np.argpartition(-self._near, few - 1)[:few]
        return [self._rows[at] for at in best[np.argsort(-self._near[best])]]

    def of(self, rows: Sequence[int]) -> dict[int, float]:
        """How near each of these rows is, of those that have a vector."""
        if self._near is None:
            return {}
        return {row: float(self._near[self._at[row]]) for row in rows if row in self._at}
