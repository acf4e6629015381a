"""The command line: ``tacthmc``."""

from tacthmc.cli._app import main as main
