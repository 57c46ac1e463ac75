#!/usr/bin/env bash
# Every check, in the order of its price: dev/check.sh [lint]
#
# All of them run even when one fails, so that one run shows everything there is to mend.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BIN=$PWD/.venv/bin
failed=()

# Compiled and rewritten modules are kept, whatever the caller prefers: hundreds of short-lived processes read them, and
# rewriting a large library anew in every worker trips over a fault of CPython 3.11 ("AST constructor recursion depth").
unset PYTHONDONTWRITEBYTECODE

step() {
  local name=$1
  shift
  printf '\n\033[1m== %s\033[0m\n' "$name"
  "$@" || failed+=("$name")
}

# nbval runs each notebook in a kernel of its own, so the notebook's home is given by the environment.
# A saved notebook must come out the same on a machine that knows nothing of the person who saved it. A copy is run:
# what a run applies to its project must not land in the repository.
notebooks() {
  local home status=0 kernel
  home=$(mktemp -d)
  rm -rf out/check && mkdir -p out/check && cp -r notebooks out/check/
  for kernel in python3 kagura; do
    # Named, so that a notebook of one kernel never runs in the other.
    grep -lZ "^ *\"name\": \"$kernel\"" out/check/notebooks/*.ipynb | xargs -0 \
      env -u JUPYTER_PATH -u DOCKER_HOST \
      HOME="$home" KAGURA_HOME="$home/kagura" KAGURA_BOX=bubblewrap XDG_RUNTIME_DIR="$home" \
      JUPYTER_DATA_DIR="$home/jupyter" JUPYTER_CONFIG_DIR="$home/jupyter-config" JUPYTER_RUNTIME_DIR="$home/jupyter-runtime" \
      JUPYTER_PREFER_ENV_PATH=1 IPYTHONDIR="$home/ipython" \
      "$BIN/python" -m pytest -p no:cacheprovider -p no:xdist --nbval \
      --nbval-kernel-name "$kernel" --nbval-cell-timeout 120 || status=1
  done
  rm -rf "$home"
  return $status
}

# node and npm may be those of .venv; a script finds its own programs in node_modules.
labextension() {
  local script
  for script in "$@"; do
    (cd labextension && PATH=$BIN:$PATH npm run --silent "$script") || return 1
  done
}

step "format" "$BIN/ruff" format --check .
step "lint" "$BIN/ruff" check .
step "types" "$BIN/mypy"
step "contracts" "$BIN/lint-imports" --no-logo
step "labextension" labextension format:check types
if [ "${1:-}" != lint ]; then
  # Once, quietly and again if need be: from here on every run finds everything rewritten.
  for _ in 1 2 3; do "$BIN/python" -m pytest --collect-only -q tests >/dev/null 2>&1 && break; done
  step "labextension tests" labextension test size
  step "notebooks" notebooks
  # Where the checks must be whole, a Docker daemon that does not start is a failure; elsewhere its tests are skipped.
  [ "${CI:-}" = true ] && export KAGURA_TEST_REQUIRE_DOCKER=1
  # Building takes minutes the first time, more than a single test may.
  [ "$(id -u)" = 0 ] && step "images" "$BIN/python" -m kagura_kernel.testing.docker_images
  # By themselves: the browser's driver keeps a loop running in its thread, where no other test could start one. Each of the
  # workers has a JupyterLab and a browser of its own.
  step "browser" "$BIN/python" dev/steadily.py -n "${WORKERS:-2}" tests/browser
  # Two workers; conftest keeps tests that share a daemon, a browser or a database on one of them.
  step "tests" "$BIN/python" dev/steadily.py -n "${WORKERS:-2}" --dist loadgroup --ignore=tests/browser tests
fi

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nfailed: %s\n' "${failed[*]}"
  exit 1
fi
