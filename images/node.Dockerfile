# Node.js with npm and TypeScript, on top of python. BASE is the image built from python.Dockerfile.
# Packages are fetched in a stage of their own: what it needs for that (Debian's npm, a mirror's address, a
# certificate) is not in the image.
ARG BASE=kagura/python:latest
FROM ${BASE} AS fetch
LABEL kagura.stage=fetch
USER 0:0
RUN apt-get -o Acquire::Retries=5 update \
 && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends npm
COPY settings/ /settings/
COPY node.package.json /out/usr/local/lib/package.json
COPY node.package-lock.json /out/usr/local/lib/package-lock.json
RUN set -eu; [ ! -e /settings/ca.pem ] || export NODE_EXTRA_CA_CERTS=/settings/ca.pem; \
    [ ! -e /settings/npmrc ] || export NPM_CONFIG_USERCONFIG=/settings/npmrc; \
    cd /out/usr/local/lib \
 && { npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --cache /tmp/npm \
      || { echo "LOCK-UNMET node.package-lock.json" >&2; exit 3; }; } \
 && mkdir /out/usr/local/bin \
 && for program in node_modules/.bin/*; do ln -s "../lib/$program" /out/usr/local/bin/; done

FROM ${BASE}
USER 0:0
# LOCK says how binding the lock is: `floor` (its versions or newer ones of this release), `strict` (exactly its
# versions) or `fresh` (no lock: how a new one is made).
ARG LOCK=floor
COPY node.apt node.apt.lock /usr/share/packages/
RUN set -eu; cd /usr/share/packages \
 && case "$LOCK" in \
      strict) wanted=$(cat node.apt.lock) ;; \
      floor) wanted="$(cat node.apt) $(cut -d= -f1 node.apt.lock)" ;; \
      fresh) wanted=$(cat node.apt) ;; \
      *) echo "LOCK is strict, floor or fresh" >&2; exit 2 ;; \
    esac \
 && apt-get -o Acquire::Retries=5 update \
 && { DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends $wanted \
      || { echo "LOCK-UNMET node.apt.lock" >&2; exit 3; }; } \
 && if [ "$LOCK" != fresh ]; then while IFS== read -r name floor; do \
      dpkg --compare-versions "$(dpkg-query --show --showformat '${Version}' "$name")" ge "$floor" \
      || { echo "LOCK-UNMET node.apt.lock: $name is older than $floor" >&2; exit 3; }; \
    done < node.apt.lock; fi \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=fetch /out/ /
USER 65532:65532
