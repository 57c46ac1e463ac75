from __future__ import annotations

from kagura_kernel.kit.redaction import engine
from kagura_kernel.kit.redaction.engine import KnownFormats
from kagura_kernel.testing.false_home import compiled_rules


def test_rules_are_kept_for_the_next_process_also_behind_a_link(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_kept", [])
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.mkdir(mode=0o700)
    link.symlink_to(kept)
    KnownFormats(link).scan(b"")
    assert [one.suffix for one in kept.iterdir() if not one.name.startswith(".")] == [".vscdb"]


def test_a_process_reads_its_rules_once_wherever_they_are_kept(tmp_path):
    known = KnownFormats(compiled_rules())
    known.scan(b"")
    another = KnownFormats(tmp_path / "another")
    another.scan(b"")
    assert another._scanner is known._scanner
    assert not (tmp_path / "another").exists()
