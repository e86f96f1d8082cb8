"""Engines, recipes and deployments."""

from rift_serving.deployment import Deployment
from rift_serving.deployment import find as find_deployment
from rift_serving.deployment import listed as list_deployments
from rift_serving.health import Served, client

__all__ = [
    "Deployment",
    "Served",
    "client",
    "find_deployment",
    "list_deployments",
]
