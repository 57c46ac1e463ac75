# Rust and Cargo with a C compiler for what links, on top of base. BASE is the image built from base.Dockerfile.
ARG BASE=kagura/base:latest
FROM ${BASE}
USER 0:0
# LOCK says how binding the lock is: `floor` (its versions or newer ones of this release), `strict` (exactly its
# versions) or `fresh` (no lock: how a new one is made).
ARG LOCK=floor
COPY rust.apt rust.apt.lock /usr/share/packages/
RUN set -eu; cd /usr/share/packages \
 && case "$LOCK" in \
      strict) wanted=$(cat rust.apt.lock) ;; \
      floor) wanted="$(cat rust.apt) $(cut -d= -f1 rust.apt.lock)" ;; \
      fresh) wanted=$(cat rust.apt) ;; \
      *) echo "LOCK is strict, floor or fresh" >&2; exit 2 ;; \
    esac \
 && apt-get -o Acquire::Retries=5 update \
 && { DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends $wanted \
      || { echo "LOCK-UNMET rust.apt.lock" >&2; exit 3; }; } \
 && if [ "$LOCK" != fresh ]; then while IFS== read -r name floor; do \
      dpkg --compare-versions "$(dpkg-query --show --showformat '${Version}' "$name")" ge "$floor" \
      || { echo "LOCK-UNMET rust.apt.lock: $name is older than $floor" >&2; exit 3; }; \
    done < rust.apt.lock; fi \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
USER 65532:65532
