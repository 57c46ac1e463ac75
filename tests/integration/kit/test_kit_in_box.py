"""A kit in a real box: what a program there reads of it, and what it cannot do to it."""

import json

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.kit import KIT_DIR, KIT_VARIABLE
from kagura_kernel.kit.staging.stage import build_kit
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.support.kit_rig import SECRET, HomeRig


async def test_a_box_reads_its_kit_runs_its_scripts_and_changes_nothing_of_it(tmp_path):
    rig = HomeRig(tmp_path)
    root = rig.skill("greet", {"scripts/greet.sh": f"#!/bin/sh\necho hello '{SECRET}'\n"})
    (root / "scripts/greet.sh").chmod(0o755)
    rig.write(rig.home / "CLAUDE.md", "be brief\n")
    backend = BubblewrapBackend()
    with build_kit(rig.plan(), rig.root, rig.redactor) as kit:
        spec = BoxSpec(env={KIT_VARIABLE: KIT_DIR}, extra_read_only=((kit.directory, KIT_DIR),))
        box = await backend.start(spec)
        try:
            ran = await box.run(
                shell_command(f"${KIT_VARIABLE}/skills/greet/scripts/greet.sh; cat {KIT_DIR}/prompt_files/*")
            )
            assert ran.stdout.text == "hello [REDACTED:password]\nbe brief\n"
            manifest = await box.run(shell_command(f"cat {KIT_DIR}/manifest.json"))
            assert [skill["name"] for skill in json.loads(manifest.stdout.text)["skills"]] == ["greet"]
            tried = await box.run(
                shell_command(
                    f"cd {KIT_DIR}; rm manifest.json; touch new; echo x >> prompt_files/CLAUDE.md; ls; ls prompt_files"
                )
            )
            assert tried.stdout.text == "manifest.json\nprompt_files\nskills\nCLAUDE.md\n"
        finally:
            await box.close()
            await backend.close()
        assert json.loads((kit.directory / "manifest.json").read_text()) == json.loads(manifest.stdout.text)
