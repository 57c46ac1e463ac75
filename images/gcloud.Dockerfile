# NOT BUILT IN THE TESTS: Google's packages come from an archive of Google's own, which the tests do not reach.
# The Google Cloud command line on top of aws. BASE is the image built from aws.Dockerfile. ARCHIVE and KEY are the
# address of that archive and of its signing key, as Google's installation page gives them.
ARG BASE=kagura/aws:latest
FROM ${BASE}
USER 0:0
ARG ARCHIVE
ARG KEY
ARG SUITE=cloud-sdk
ARG VERSION
RUN set -eu; : "${ARCHIVE:?}" "${KEY:?}" "${VERSION:?}"; install -d /usr/share/keyrings \
 && curl --fail --silent --show-error --location --retry 5 --output /usr/share/keyrings/gcloud.asc "$KEY" \
 && echo "deb [signed-by=/usr/share/keyrings/gcloud.asc] $ARCHIVE $SUITE main" > /etc/apt/sources.list.d/gcloud.list \
 && apt-get -o Acquire::Retries=5 update \
 && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends \
      "google-cloud-cli=$VERSION" \
 && rm -rf /etc/apt/sources.list.d/gcloud.list /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
USER 65532:65532
