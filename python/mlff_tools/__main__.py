"""Runs a command: `python -m mlff_tools NAME ARGUMENTS`. The program `mlff` starts its Python commands this way."""

import importlib
import sys

COMMANDS = {
    "against": "model.against",
    "bench": "bench.suite",
    "certify": "certify.command",
    "convert": "convert.command",
    "distill": "train.distill",
    "examples": "examples",
    "label": "train.label",
    "plot": "report.plot",
    "report": "report.page",
    "scaling": "bench.scaling",
    "selftest": "model.selftest",
    "uncertainty": "certify.uncertainty",
    "validate": "bench.validate",
}


def main():
    name = sys.argv.pop(1) if len(sys.argv) > 1 else "--help"
    if name not in COMMANDS:
        print(f"usage: python -m mlff_tools COMMAND ARGUMENTS\ncommands: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return importlib.import_module(f"mlff_tools.{COMMANDS[name]}").main()


if __name__ == "__main__":
    sys.exit(main())
