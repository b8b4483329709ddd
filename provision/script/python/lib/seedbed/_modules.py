"""Makes the module paths of scripts written for PVC, and errors that list what exists."""

import importlib
import sys
import types

from ._surface import ALIASES, MODULES


def missing(module, names):
    """The __getattr__ of a module: an ImportError that lists what the module has."""

    def __getattr__(name):
        # An AttributeError lets the import system look for a submodule of that name.
        if name.startswith("_") or "%s.%s" % (module, name) in MODULES:
            raise AttributeError(name)
        raise ImportError(
            "%s has no %s; it has %s" % (module, name, ", ".join(sorted(names))), name=module
        )

    return __getattr__


class _Finder:
    """Refuses missing modules of existing packages."""

    def __init__(self, modules):
        self.modules = modules
        self.packages = {name.split(".")[0] for name in modules}

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top not in self.packages or name.startswith("seedbed._") or name in MODULES:
            return None
        there = sorted(m for m in self.modules if m.startswith(top + "."))
        raise ModuleNotFoundError(
            "no module named %r; there are %s" % (name, ", ".join(there)), name=name
        )


def install():
    """Makes the modules of ALIASES, and puts the refusing finder before all others."""
    for alias, (source, names) in ALIASES.items():
        ours = importlib.import_module(source)
        top, _, leaf = alias.partition(".")
        package = sys.modules.get(top)
        if package is None or not getattr(package, "__seedbed__", False):
            package = types.ModuleType(top, "Names for scripts written for PVC.")
            package.__path__ = []
            package.__seedbed__ = True
            package.__getattr__ = missing(top, [a.partition(".")[2] for a in ALIASES if a.startswith(top + ".")])
            sys.modules[top] = package
        module = types.ModuleType(alias, ours.__doc__)
        for name in names:
            setattr(module, name, getattr(ours, name))
        module.__all__ = list(names)
        module.__getattr__ = missing(alias, names)
        sys.modules[alias] = module
        setattr(package, leaf, module)
    sys.meta_path.insert(0, _Finder(list(ALIASES) + list(MODULES)))
