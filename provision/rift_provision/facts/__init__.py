"""Facts of a host: read, never guessed. `parse(tree)` is pure; `gather` brings the tree."""

from rift_provision.facts.host_facts import Facts, json_schema, parse, read_json, to_json

__all__ = ["Facts", "json_schema", "parse", "read_json", "to_json"]
