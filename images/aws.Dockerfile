# The AWS command line on top of node. BASE is the image built from node.Dockerfile.
# Wheels are fetched in a stage of their own: what it needs for that (pip, a mirror's address, a certificate) is not in
# the image.
ARG BASE=kagura/node:latest
FROM ${BASE} AS fetch
LABEL kagura.stage=fetch
USER 0:0
RUN apt-get -o Acquire::Retries=5 update \
 && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends python3-pip
COPY settings/ /settings/
COPY aws.pip.lock /fetch/
RUN set -eu; [ ! -e /settings/ca.pem ] || export PIP_CERT=/settings/ca.pem; \
    [ ! -e /settings/pip.conf ] || export PIP_CONFIG_FILE=/settings/pip.conf; \
    into=/out/usr/local/lib/aws \
 && { PYTHONDONTWRITEBYTECODE=1 python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --retries 5 \
        --only-binary :all: --no-deps --require-hashes --no-compile --target "$into" --requirement /fetch/aws.pip.lock \
      || { echo "LOCK-UNMET aws.pip.lock" >&2; exit 3; }; } \
 && mkdir -p /out/usr/local && mv "$into/bin" /out/usr/local/bin \
 && find /out/usr/local/bin -type f ! -name aws -delete \
 # Examples for reading, keys of no worth in them among others.
 && rm -rf "$into/awscli/examples" \
 && sed -i '1s|.*|#!/usr/bin/python3|; 2i import sys; sys.path.insert(0, "/usr/local/lib/aws")' /out/usr/local/bin/aws \
 && python3 -m compileall -q "$into" -s /out >/dev/null

FROM ${BASE}
USER 0:0
# Libraries of its own, in a folder of its own: they do not meet those of the python image.
COPY --from=fetch /out/ /
USER 65532:65532
