# What every box has: a shell, the usual programs, Python. No secret, nothing of Kagura's own: the guest program is
# sent in when a box starts. BASE may be any Debian of the same release (see README.md).
ARG BASE=debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171
FROM ${BASE}

RUN apt-get -o Acquire::Retries=5 update \
 && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends \
      bash ca-certificates coreutils curl file findutils git jq less openssh-client patch procps python3 ripgrep unzip \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
 # Programs that take on another user's rights have no use in a box, whatever else refuses them.
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

# Precompiled, because a box cannot write below /usr and would compile at every start.
RUN python3 -m compileall -q /usr/lib/python3* >/dev/null || true

RUN groupadd --gid 65532 agent \
 && useradd --uid 65532 --gid 65532 --home-dir /home/agent --no-create-home --shell /bin/bash agent \
 && mkdir -p /home/agent /workspace \
 && chown 65532:65532 /home/agent /workspace

ENV LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
WORKDIR /workspace
CMD ["bash"]
