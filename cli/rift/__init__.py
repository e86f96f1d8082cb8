"""The command line of Rift, and what every part may use: errors, paths, the store."""

__version__ = "0.1.0"
