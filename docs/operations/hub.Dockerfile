# The image of everybody's server on a Hub (docs/hub.md): JupyterLab and jupyterhub-singleuser as BASE has them, and this
# package, from a wheel that lies in wheels/. jupyterhub in BASE is of the version that the Hub has.
ARG BASE=quay.io/jupyter/minimal-notebook:latest
FROM ${BASE}
COPY --chown=0:0 wheels/ /tmp/wheels/
RUN set -eu \
 && pip install --quiet --no-cache-dir "$(echo /tmp/wheels/kagura_kernel-*.whl)[lab,kubernetes,postgres]" \
 && pip check
