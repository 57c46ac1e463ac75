# The default image: base, and what most data work in Python needs. BASE is the image built from base.Dockerfile.
ARG BASE=kagura/base:latest
FROM ${BASE}

USER 0:0
RUN apt-get -o Acquire::Retries=5 update \
 && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install --yes --no-install-recommends \
      python3-matplotlib python3-numpy python3-pandas python3-pip python3-pytest python3-venv \
 && ln -sf python3 /usr/bin/python \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

# There is no display in a box.
ENV MPLBACKEND=agg
USER 65532:65532
