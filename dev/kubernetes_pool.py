"""Make docs/operations/kubernetes-pool.yaml: `python dev/kubernetes_pool.py`.

The pods of a warm pool wait with the program that fetches a guest, which is ours and changes.
"""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "operations" / "kubernetes-pool.yaml"
_HEAD = """\
# A warm pool of boxes where a cluster has the SIG's agent-sandbox (docs/boxes.md). Made by dev/kubernetes_pool.py.
#
#   kubectl apply -n boxes -f kubernetes-pool.yaml
#
# and `kubernetes_warm_pool = "kagura-boxes"` in the settings. Accounts need create, get, list and delete of
# sandboxclaims (extensions.agents.x-k8s.io) and get of sandboxes (agents.x-k8s.io). Adapt image, limits and number.
"""


def kubernetes_pool() -> str:
    """The manifests."""
    import yaml

    from kagura_kernel.sandbox.kubernetes.pods import pool_bodies

    bodies = pool_bodies("kagura-boxes", "kagura/python:latest", "python3")
    # Without aliases, since people read and change it.
    dumper = type("Plain", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    return _HEAD + yaml.dump_all(bodies, Dumper=dumper, sort_keys=False, width=120)


if __name__ == "__main__":
    PAGE.write_text(kubernetes_pool(), "utf-8")
    print(f"{PAGE} was written.")
