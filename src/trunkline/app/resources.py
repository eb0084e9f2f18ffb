"""The resources of the admin API: what REST, its OpenAPI document and the commands are made from."""

from typing import Any

from trunkline.base import members
from trunkline.server import admin
from trunkline.server.admin import Resource


def resources() -> dict[str, Resource[Any]]:
    """Every one, by its name."""
    return members.load(admin, "RESOURCE", Resource)
