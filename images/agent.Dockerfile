# The Claude program on top of aws, for a brain that thinks inside the box. BASE is the image built from aws.Dockerfile.
# Wheels are fetched in a stage of their own: what it needs for that (pip, a mirror's address, a certificate) is not in
# the image.
ARG BASE=kagura/aws:latest
FROM ${BASE} AS fetch
LABEL kagura.stage=fetch
USER 0:0
RUN apt-get -o Acquire::Retries=5 update \
 && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends python3-pip
COPY settings/ /settings/
COPY agent.pip.lock /fetch/
RUN set -eu; [ ! -e /settings/ca.pem ] || export PIP_CERT=/settings/ca.pem; \
    [ ! -e /settings/pip.conf ] || export PIP_CONFIG_FILE=/settings/pip.conf; \
    into=/out/usr/local/fetched \
 && { PYTHONDONTWRITEBYTECODE=1 python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --retries 5 \
        --only-binary :all: --no-deps --require-hashes --no-compile --target "$into" --requirement /fetch/agent.pip.lock \
      || { echo "LOCK-UNMET agent.pip.lock" >&2; exit 3; }; } \
 && mkdir -p /out/usr/local/bin && mv "$into/claude_agent_sdk/_bundled/claude" /out/usr/local/bin/claude \
 && rm -rf "$into" && chmod 755 /out/usr/local/bin/claude

FROM ${BASE}
USER 0:0
COPY --from=fetch /out/ /
# The program is pinned: it neither renews itself nor talks to anybody but the model.
ENV DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
USER 65532:65532
