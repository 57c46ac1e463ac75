"""Where tokens of services are found: the training half."""

from __future__ import annotations

from tests.support.redaction_corpus.sample import Template

CARRIERS: tuple[Template, ...] = (
    Template("# deployment\nPORT=8080\n⟪variable⟫=⟦token⟧\nLOG_LEVEL=info\n", "env"),
    Template("set -euo pipefail\nexport ⟪variable⟫=⟦token⟧\n./deploy.sh --stage prod\n"),
    Template(
        'import os\n\nimport requests\n\n⟪variable⟫ = "⟦token⟧"\n\n\ndef client():\n    return requests.Session()\n'
    ),
    Template(
        "const config = {\n  region: 'eu-west-1',\n  ⟪variable⟫: '⟦token⟧',\n  retries: 3,\n};\n\nmodule.exports = config;\n"
    ),
    Template('{\n  "name": "worker",\n  "env": {\n    "⟪variable⟫": "⟦token⟧",\n    "STAGE": "prod"\n  }\n}\n', "json"),
    Template(
        "services:\n  api:\n    image: registry.example.com/api:1.4.2\n    environment:\n"
        '      ⟪variable⟫: "⟦token⟧"\n      TZ: Europe/Berlin\n',
        "yaml",
    ),
    Template(
        "name: release\non:\n  push:\n    tags: ['v*']\njobs:\n  build:\n    runs-on: ubuntu-24.04\n    env:\n"
        "      ⟪variable⟫: ⟦token⟧\n    steps:\n      - run: make release\n",
        "yaml",
    ),
    Template('[tool.sync]\nendpoint = "https://api.example.com/v2"\n⟪variable⟫ = "⟦token⟧"\ntimeout = 30\n', "toml"),
    Template(
        "2026-03-04T11:02:51Z INFO  starting worker pid=4121\n"
        "2026-03-04T11:02:51Z DEBUG environment ⟪variable⟫=⟦token⟧ HOME=/home/agent\n"
        "2026-03-04T11:02:52Z INFO  listening on :8080\n"
    ),
    Template("  1021  git pull --rebase\n  1022  ⟪variable⟫=⟦token⟧ python sync.py --all\n  1023  ls -la\n"),
    Template(
        "FROM python:3.12-slim\nWORKDIR /srv\nCOPY . .\nENV ⟪variable⟫=⟦token⟧\n"
        'RUN pip install -r requirements.txt\nCMD ["python", "-m", "srv"]\n'
    ),
    Template(
        'resource "aws_lambda_function" "sync" {\n  function_name = "sync"\n  environment {\n    variables = {\n'
        '      ⟪variable⟫ = "⟦token⟧"\n    }\n  }\n}\n'
    ),
    Template(
        '{\n "cells": [\n  {\n   "cell_type": "code",\n   "execution_count": 3,\n   "id": "5f0c2a11",\n   "metadata": {},\n'
        '   "outputs": [\n    {\n     "name": "stdout",\n     "output_type": "stream",\n'
        '     "text": [\n      "⟪variable⟫=⟦token⟧\\n"\n     ]\n    }\n   ],\n'
        '   "source": [\n    "!env | grep ⟪variable⟫"\n   ]\n  }\n ],\n'
        ' "metadata": {},\n "nbformat": 4,\n "nbformat_minor": 5\n}\n',
        "ipynb",
    ),
    Template(
        "Hi Mira,\n\nthe key for the nightly job is ⟦token⟧ (it goes into ⟪variable⟫). Please rotate it after the demo.\n\nJon\n"
    ),
    Template('package main\n\nimport "os"\n\nfunc init() {\n\tos.Setenv("⟪variable⟫", "⟦token⟧")\n}\n'),
    Template("[default]\nregion = eu-central-1\n⟪variable⟫ = ⟦token⟧\noutput = json\n", "ini"),
    Template(
        "INSERT INTO settings (id, name, value, updated_at) VALUES\n  (11, 'theme', 'dark', '2026-01-02'),\n"
        "  (12, '⟪variable⟫', '⟦token⟧', '2026-01-02');\n"
    ),
    Template("docker run --rm -d --name sync -e STAGE=prod -e ⟪variable⟫=⟦token⟧ registry.example.com/sync:2.0\n"),
)
"""Each has the slots `⟪variable⟫` and `⟦token⟧`."""
