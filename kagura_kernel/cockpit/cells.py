"""The two cell magics."""

from __future__ import annotations

from kagura_kernel.domain.grammar import CellMagic
from kagura_kernel.runs.request import LANGUAGE, OPTIONS, SHARED_OPTIONS

KAGURA = CellMagic(
    "kagura",
    "send a task to an agent, which works in a box",
    "task",
    options=OPTIONS,
    examples=(
        "kagura --budget 0.50",
        "kagura --net python-packages --write through",
        "kagura -i df -i 'top=df.head(20)' -o summary",
        "kagura --agent ./reviewer.yaml --mcp-config servers.json",
        "kagura --replay tour.jsonl --new",
    ),
)

SANDBOX = CellMagic(
    "sandbox",
    "run the cell’s own code in a box, without any model",
    "program",
    arguments=(LANGUAGE,),
    options=SHARED_OPTIONS,
    examples=("sandbox", "sandbox bash --net debian --writable-root", "sandbox -i df -o result --timeout 10"),
)

CELL_MAGICS = (KAGURA, SANDBOX)
