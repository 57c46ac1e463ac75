#!/usr/bin/env bash
# Set-up for one purpose: dev/setup.sh python|run|test
#
#   python   the environment in .venv
#   run      that, and what a box needs from the system
#   test     that, and what the tests start for themselves: Docker, Chromium, PostgreSQL, …
#
# Quick when nothing is to be done. As root on a Debian system it installs missing packages;
# otherwise it names them and stops with exit code 2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
STAMP=$VENV/.installed

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

# A hiccup of the network is no reason to fail.
retry() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return 0
    [ "$attempt" = 3 ] || { say "Failed: $1. Trying again in $((attempt * 5)) s."; sleep $((attempt * 5)); }
  done
  return 1
}

# ------------------------------------------------------------------ the system

# A command that must be there, and the Debian package that brings it.
requirements() {
  case $1 in
    run) echo "bwrap bubblewrap" ;;
    test)
      requirements run
      cat <<'LIST'
chromium chromium
debootstrap debootstrap
dockerd docker.io
git git
ip iproute2
iptables iptables
newuidmap uidmap
pg_ctl postgresql
rg ripgrep
runsc runsc
LIST
      ;;
  esac
}

# Daemons and server programs lie outside the PATH of ordinary users, PostgreSQL's outside everybody's.
present() {
  PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" >/dev/null && return 0
  [ "$1" = pg_ctl ] && compgen -G '/usr/lib/postgresql/*/bin/pg_ctl' >/dev/null
}

missing_packages() {
  local program package
  find_python >/dev/null || echo "python3 python3-venv"
  requirements "$1" | while read -r program package; do
    present "$program" || echo "$package"
  done
}

install_packages() {
  local packages
  mapfile -t packages < <(missing_packages "$1" | tr ' ' '\n')
  [ ${#packages[@]} -gt 0 ] || return 0
  if [ "$(uname -s)" != Linux ] || ! command -v apt-get >/dev/null; then
    say "Please install what this needs and run it again (names as in Debian): ${packages[*]}"
    exit 2
  fi
  if [ "$(id -u)" != 0 ]; then
    say "This needs packages that only root can install. Run"
    say "  sudo apt install -y --no-install-recommends ${packages[*]}"
    say "and then the same command again."
    exit 2
  fi
  say "Installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # Run level 1 keeps SysV systems from starting the services: the tests start their own, elsewhere.
  export RUNLEVEL=1
  retry apt-get update -qq
  retry apt-get install -qq -y --no-install-recommends "${packages[@]}" </dev/null >/dev/null
}

# ---------------------------------------------------------------------- Python

# The first Python that is new enough and can make an environment.
find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# What the environment was made from: it is made again when this changes.
fingerprint() {
  { cat pyproject.toml; pwd; "$VENV/bin/python" -VV; } 2>&1 | sha256sum
}

install_python() {
  local python
  "$VENV/bin/python" -c pass 2>/dev/null || rm -rf "$VENV"
  if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(fingerprint)" ]; then
    return 0
  fi
  if [ ! -d "$VENV" ]; then
    if ! python=$(find_python); then
      say "No Python 3.11 or newer with its venv module was found. Run"
      say "  sudo apt install -y python3 python3-venv"
      say "or name one: make ${1:-setup} PYTHON=/path/to/python3"
      exit 2
    fi
    say "Making $VENV with $("$python" -V)"
    "$python" -m venv "$VENV"
  fi
  say "Installing the Python packages into $VENV (a few minutes the first time)"
  retry "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -e '.[dev]'
  fingerprint >"$STAMP"
}

case ${1:-} in
  python) install_python ;;
  run | test)
    install_packages "$1"
    install_python
    ;;
  *)
    echo "usage: dev/setup.sh python|run|test" >&2
    exit 2
    ;;
esac
