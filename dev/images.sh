#!/usr/bin/env bash
# The box images from images/, with the Docker daemon that the docker program finds.
#
#   dev/images.sh [build [NAME…]]   build them; BASE=IMAGE stands in for the pinned Debian image
#   dev/images.sh lock [NAME…]      renew the locks: Debian's from images built without a lock, pip's and npm's from
#                                   their indexes (pip needs uv, npm needs npm); NETWORK=host where there is no bridge
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v docker >/dev/null || ! docker version --format '{{.Server.Version}}' >/dev/null 2>&1; then
  echo "No Docker daemon answers. Install and start Docker (sudo apt install -y docker.io), or let DOCKER_HOST name one." >&2
  exit 2
fi

command=${1:-build}
[ $# -eq 0 ] || shift
images() { .venv/bin/python -m kagura_kernel.cli.main images "$@"; }
build=(build ${BASE:+--base "$BASE"} ${NETWORK:+--network "$NETWORK"})
packages() { docker run --rm --network none --entrypoint dpkg-query "$1" --show --showformat '${Package}=${Version}\n' | LC_ALL=C sort; }

# What a fresh image has beyond the one that it is built on, with versions.
lock_apt() {
  images "${build[@]}" --lock fresh --tag-prefix kagura-lock/ "$1" >/dev/null
  local below
  below=$(docker image inspect --format '{{index .Config.Labels "kagura.base"}}' "kagura-lock/$1:latest")
  LC_ALL=C comm -13 <(packages "$below") <(packages "kagura-lock/$1:latest") >"images/$1.apt.lock.new"
  mv "images/$1.apt.lock.new" "images/$1.apt.lock"
}

lock_pip() {
  # The agent image takes one program out of one wheel, not what the wheel's library needs.
  local alone=()
  [ "$1" != agent ] || alone=(--no-deps)
  uv pip compile --quiet --upgrade --python-platform linux --python-version 3.11 --generate-hashes --no-header --no-annotate \
    "${alone[@]}" "images/$1.pip" --output-file "images/$1.pip.lock"
}

lock_npm() {
  local directory
  directory=$(mktemp -d)
  cp "images/$1.package.json" "$directory/package.json"
  (cd "$directory" && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund --silent)
  mv "$directory/package-lock.json" "images/$1.package-lock.json"
  rm -rf "$directory"
}

case $command in
  build) images "${build[@]}" "$@" ;;
  lock)
    [ $# -gt 0 ] || set -- base python node aws agent
    trap 'docker image ls --quiet --filter "reference=kagura-lock/*" | xargs --no-run-if-empty docker image rm --force >/dev/null' EXIT
    for name in "$@"; do
      [ ! -e "images/$name.package.json" ] || lock_npm "$name"
      [ ! -e "images/$name.pip" ] || lock_pip "$name"
      [ ! -e "images/$name.apt" ] || lock_apt "$name"
    done
    ;;
  *)
    echo "dev/images.sh [build|lock] [NAME…]" >&2
    exit 2
    ;;
esac
