# What every box has: a shell, the usual programs, Python. No secret, nothing of Kagura's own: the guest program is
# sent in when a box starts. BASE may be any Debian of the same release (see README.md).
ARG BASE=debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
FROM ${BASE}

# LOCK says how binding the lock is: `floor` (its versions or newer ones of this release), `strict` (exactly its
# versions) or `fresh` (no lock: how a new one is made).
ARG LOCK=floor
COPY base.apt base.apt.lock /usr/share/packages/
RUN set -eu; cd /usr/share/packages \
 && case "$LOCK" in \
      strict) wanted=$(cat base.apt.lock) ;; \
      floor) wanted="$(cat base.apt) $(cut -d= -f1 base.apt.lock)" ;; \
      fresh) wanted=$(cat base.apt) ;; \
      *) echo "LOCK is strict, floor or fresh" >&2; exit 2 ;; \
    esac \
 && apt-get -o Acquire::Retries=5 update \
 && { DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends $wanted \
      || { echo "LOCK-UNMET base.apt.lock" >&2; exit 3; }; } \
 && if [ "$LOCK" != fresh ]; then while IFS== read -r name floor; do \
      dpkg --compare-versions "$(dpkg-query --show --showformat '${Version}' "$name")" ge "$floor" \
      || { echo "LOCK-UNMET base.apt.lock: $name is older than $floor" >&2; exit 3; }; \
    done < base.apt.lock; fi \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log \
 # Programs that take on another user's rights have no use in a box, whatever else refuses them.
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 # Precompiled, because a box cannot write below /usr and would compile at every start.
 && { python3 -m compileall -q /usr/lib/python3* >/dev/null || true; }

RUN groupadd --gid 65532 agent \
 && useradd --uid 65532 --gid 65532 --home-dir /home/agent --no-create-home --shell /bin/bash agent \
 && mkdir -p /home/agent /workspace \
 && chown 65532:65532 /home/agent /workspace

ENV LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
WORKDIR /workspace
CMD ["bash"]
