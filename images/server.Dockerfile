# What `kagura-kernel serve` needs in a container of its own: bubblewrap, and every library, but nothing of Kagura's.
# docs/operations adds the package itself, which then needs no network. BASE is the image built from base.Dockerfile.
# Wheels are fetched in a stage of their own: what it needs for that (pip, a mirror's address, a certificate) is not in
# the image.
ARG BASE=kagura/base:latest
FROM ${BASE} AS fetch
LABEL kagura.stage=fetch
USER 0:0
RUN apt-get -o Acquire::Retries=5 update \
 && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends python3-pip
COPY settings/ /settings/
COPY server.pip.lock /fetch/
RUN set -eu; [ ! -e /settings/ca.pem ] || export PIP_CERT=/settings/ca.pem; \
    [ ! -e /settings/pip.conf ] || export PIP_CONFIG_FILE=/settings/pip.conf; \
    into=/out/opt/server/lib/$(python3 -c "import sys; print(\"python%d.%d\" % sys.version_info[:2])")/site-packages \
 # Without pip of its own: what is in it is changed by building the image again.
 && python3 -m venv --without-pip /out/opt/server \
 && { PYTHONDONTWRITEBYTECODE=1 python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --retries 5 \
        --only-binary :all: --no-deps --require-hashes --no-compile --target "$into" --requirement /fetch/server.pip.lock \
      || { echo "LOCK-UNMET server.pip.lock" >&2; exit 3; }; } \
 && rm -rf "$into/bin" \
 # The libraries' own tests: of use to their authors alone.
 && find "$into" -depth -type d \( -name tests -o -name test \) -path '*/*/*' -exec rm -rf {} + \
 && python3 -m compileall -q "$into" -s /out >/dev/null

FROM ${BASE}
USER 0:0
# LOCK says how binding the lock is: `floor` (its versions or newer ones of this release), `strict` (exactly its
# versions) or `fresh` (no lock: how a new one is made).
ARG LOCK=floor
COPY server.apt server.apt.lock /usr/share/packages/
RUN set -eu; cd /usr/share/packages \
 && case "$LOCK" in \
      strict) wanted=$(cat server.apt.lock) ;; \
      floor) wanted="$(cat server.apt) $(cut -d= -f1 server.apt.lock)" ;; \
      fresh) wanted=$(cat server.apt) ;; \
      *) echo "LOCK is strict, floor or fresh" >&2; exit 2 ;; \
    esac \
 && apt-get -o Acquire::Retries=5 update \
 && { DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends $wanted \
      || { echo "LOCK-UNMET server.apt.lock" >&2; exit 3; }; } \
 && if [ "$LOCK" != fresh ]; then while IFS== read -r name floor; do \
      dpkg --compare-versions "$(dpkg-query --show --showformat '${Version}' "$name")" ge "$floor" \
      || { echo "LOCK-UNMET server.apt.lock: $name is older than $floor" >&2; exit 3; }; \
    done < server.apt.lock; fi \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=fetch /out/ /
USER 65532:65532
