#!/usr/bin/env bash
# Build the box images from images/ with the Docker daemon that the docker program finds.
#
# BASE=IMAGE stands in for the pinned Debian image, where that cannot be fetched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v docker >/dev/null || ! docker version >/dev/null 2>&1; then
  echo "No Docker daemon answers. Install and start Docker (sudo apt install -y docker.io), or let DOCKER_HOST name one." >&2
  exit 2
fi

docker build --file images/base.Dockerfile ${BASE:+--build-arg "BASE=$BASE"} --tag kagura/base:latest images
docker build --file images/python.Dockerfile --tag kagura/python:latest images
