"""Boxes in the pods of a Kubernetes cluster."""
