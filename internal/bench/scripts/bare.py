"""Runs the steps of a script in this process: bare.py LIBRARY SCRIPT."""

import sys

sys.path.insert(0, sys.argv[1])
with open(sys.argv[2], "rb") as f:
    exec(compile(f.read(), sys.argv[2], "exec"))
script = VMBuilderScript("web1", 1, "small", {})  # noqa: F821  the script's
for step in ("setup", "create", "prepare", "install", "cleanup"):
    getattr(script, step)()
