"""Turns a file of frames that a shell program left (Parquet, Arrow, Feather) into what crosses; runs in the box.

These formats are packed in many ways, and unpacking them is the box's own risk: `convert.py FILE TARGET ROOM`.
"""

from __future__ import annotations

import pathlib
import sys

LIB = str(pathlib.Path(__file__).resolve().parents[1])


def main() -> int:
    """Convert what the arguments say; a failure is a file that tells why."""
    sys.path.insert(0, LIB)
    from kagura_box_runner import pack, variables, wire  # type: ignore[import-not-found]

    source, target, room = sys.argv[1:]
    try:
        import pandas as pd

        frame = pd.read_parquet(source) if source.endswith(".parquet") else pd.read_feather(source)
        data = wire.to_file(pack.pack(frame, int(room)))
    except wire.CannotCross as why:
        data = wire.error_file(str(why))
    except ImportError as error:
        package = (error.name or "pandas").partition(".")[0]
        data = wire.error_file(pack.missing("table file", package))
    except Exception as error:  # noqa: BLE001 - a broken file fails in any way
        data = wire.error_file(f"the file cannot be read: {type(error).__name__}: {str(error)[:500]}")
    place = pathlib.Path(target)
    variables.write_whole(place.parent, place.name, data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
