"""Runs one provisioning script: the program that the sandbox starts.

It speaks with the worker over file descriptor 3; lib/seedbed/_session.py says how.
Standard output and standard error are the script's.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from seedbed import _session  # noqa: E402  the path comes first

if __name__ == "__main__":
    _session.main(3)
