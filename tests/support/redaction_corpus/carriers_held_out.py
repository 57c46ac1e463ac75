"""Where tokens of services are found: the half that no rule is made with."""

from __future__ import annotations

from tests.support.redaction_corpus.sample import Template

CARRIERS: tuple[Template, ...] = (
    Template(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: sync\ndata:\n  ⟪variable⟫: ⟦token⟧\n  LOG: warn\n", "yaml"
    ),
    Template('$env:⟪variable⟫ = "⟦token⟧"\nInvoke-WebRequest https://api.example.com/ping\n'),
    Template("fish> set -x ⟪variable⟫ ⟦token⟧\nfish> make publish\n"),
    Template(
        "public final class Settings {\n    // set by ops in March\n"
        '    private static final String ⟪variable⟫ = "⟦token⟧";\n\n    private Settings() {}\n}\n'
    ),
    Template("module Sync\n  ⟪variable⟫ = '⟦token⟧'.freeze\n  TIMEOUT = 30\nend\n"),
    Template("<?php\n\ndefine('⟪variable⟫', '⟦token⟧');\n\nrequire __DIR__ . '/vendor/autoload.php';\n"),
    Template('static ⟪variable⟫: &str = "⟦token⟧";\n\nfn main() {\n    println!("{}", ⟪variable⟫.len());\n}\n'),
    Template(
        "Traceback (most recent call last):\n"
        '  File "sync.py", line 41, in <module>\n    main(os.environ)\n'
        "RuntimeError: upstream refused (401) with environ({'STAGE': 'prod', '⟪variable⟫': '⟦token⟧', 'LANG': 'C'})\n"
    ),
    Template(
        "> curl -s -H 'Accept: application/json' \\\n    -H 'X-Trace: 4417' \\\n    -H 'Authorization: Bearer ⟦token⟧' \\\n    https://api.example.com/v2/⟪variable⟫\n"
    ),
    Template(
        '{"level":"debug","ts":1741085000.22,"msg":"loaded configuration","⟪variable⟫":"⟦token⟧","port":8080}\n',
        "json",
    ),
    Template("+ [[ -n '' ]]\n+ ⟪variable⟫=⟦token⟧\n+ python -m sync --once\nsync: 14 rows\n"),
    Template(
        '@@ -4,7 +4,7 @@ env:\n   STAGE: prod\n-  ⟪variable⟫: ""\n+  ⟪variable⟫: "⟦token⟧"\n   REGION: eu-west-1\n'
    ),
    Template(
        '[Service]\nType=simple\nEnvironment="STAGE=prod" "⟪variable⟫=⟦token⟧"\nExecStart=/usr/bin/sync --serve\nRestart=always\n'
    ),
    Template(
        "# Runbook\n\n1. Log in to the console.\n2. Use this value for `⟪variable⟫`:\n\n       ⟦token⟧\n\n3. Restart the worker.\n"
    ),
    Template(
        "stage:\n  variables:\n    - name: REGION\n      value: eu-west-1\n    - name: ⟪variable⟫\n      value: ⟦token⟧\n",
        "yaml",
    ),
    Template('// local.settings.json\nvar ⟪variable⟫ = Environment.Get("⟪variable⟫") ?? "⟦token⟧";\n'),
    Template(
        "mira: did anyone see the new ⟪variable⟫?\njon: yes, ⟦token⟧\njon: delete this message afterwards\nmira: thx\n"
    ),
    Template('[env]\nSTAGE = "prod"\n⟪variable⟫ = { value = "⟦token⟧", force = true }\n', "toml"),
)
"""Each has the slots `⟪variable⟫` and `⟦token⟧`."""
