"""Small wheels for tests that install packages."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def write_wheel(folder: Path, name: str, version: str, *, script: bool = False) -> None:
    """Write a wheel of one module that knows its version, one package likewise, and a configuration for Jupyter.

    Args:
        folder: Where to.
        name: The distribution's; its module and its console script are called the same.
        version: Its version.
        script: Whether there is a console script; it prints the name and the version.
    """
    module = name.replace("-", "_")
    about = f"{module}-{version}.dist-info"
    files = {
        f"{module}.py": f"VERSION = '{version}'\ndef main():\n    print('{name}', VERSION)\n",
        f"{module}_parts/__init__.py": f"VERSION = '{version}'\n",
        f"{module}-{version}.data/data/etc/jupyter/{module}.json": "{}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script:
        files[f"{about}/entry_points.txt"] = f"[console_scripts]\n{name} = {module}:main\n"
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}")
    files[f"{about}/RECORD"] = "\n".join([*lines, f"{about}/RECORD,,", ""])
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
