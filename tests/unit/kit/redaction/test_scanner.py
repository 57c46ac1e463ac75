from __future__ import annotations

from pathlib import Path

from kagura_kernel.kit.redaction.scanner import KnownFormats


def test_rules_are_kept_for_the_next_process_also_behind_a_link(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.mkdir(mode=0o700)
    link.symlink_to(kept)
    KnownFormats(link).scan(b"")
    assert [one.suffix for one in kept.iterdir() if not one.name.startswith(".")] == [".vscdb"]
