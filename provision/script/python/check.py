"""Finds what is wrong with a provisioning script, without running any of it.

Run as `python3 -I -c SURFACE+THIS`, where SURFACE is lib/seedbed/_surface.py; the
script comes on standard input, and the findings go out as a JSON list of
{"line", "level", "text"}, level being "error" or "hint".
"""

import ast
import json
import re
import sys

STEPS = ("setup", "create", "prepare", "install", "cleanup")
GIVEN = ("vm_name", "vm_id", "temporary_directory", "disks", "networks")
KNOWN = dict(MODULES, **{alias: names for alias, (_, names) in ALIASES.items()})  # noqa: F821
PACKAGES = {name.split(".")[0] for name in KNOWN}
# Hosts that are a mirror or an archive of a distribution.
MIRROR = re.compile(r"https?://[\w.-]*(?:mirror|archive|deb\.|ftp\.|packages\.)[\w.-]*/", re.ASCII)


class Check(ast.NodeVisitor):
    def __init__(self):
        self.findings = []
        self.inside = []  # names of the classes and functions around
        self.docs = set()
        self.guarded = 0  # how many try statements around would catch an ImportError

    def say(self, level, node, text):
        self.findings.append({"line": getattr(node, "lineno", 0) or 0, "level": level, "text": text})

    def module(self, tree):
        made = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "VMBuilderScript"]
        functions = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == "install"]
        bound = {n for node in tree.body for n in names_bound(node)}
        if made:
            self.builder(made[-1])
        elif functions:
            self.function(functions[-1])
        elif not bound & {"VMBuilderScript", "install"}:
            self.say("error", None, "there is neither a class VMBuilderScript(VMBuilder) nor a function install(**kwargs)")
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                self.docs.add(id(node.value))
        self.visit(tree)

    def builder(self, cls):
        if not cls.bases:
            self.say("error", cls, "VMBuilderScript extends nothing: expected class VMBuilderScript(VMBuilder)")
        methods = {n.name: n for n in cls.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for name in STEPS:
            method = methods.get(name)
            if method is None:
                continue
            if isinstance(method, ast.AsyncFunctionDef):
                self.say("error", method, "%s is a coroutine: a step is an ordinary method" % name)
            low, high = arity(method)
            if not low <= 1 <= high:
                self.say("error", method, "%s takes %s: a step takes only self" % (name, parameters(method)))
            if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own(method)):
                self.say("error", method, "%s is a generator: nothing of it would run" % name)
        plain = len(cls.bases) == 1 and (getattr(cls.bases[0], "id", None) or getattr(cls.bases[0], "attr", None)) == "VMBuilder"
        create = methods.get("create")
        if create is None and plain and "create" not in {n for node in cls.body for n in names_bound(node)}:
            self.say("error", cls, "create() is missing: it returns the domain's XML, as by seedbed.domain_xml(self)")
        elif create is not None and not any(
            isinstance(n, ast.Raise) or isinstance(n, ast.Return) and n.value is not None for n in own(create)
        ):
            self.say("error", create, "create returns nothing: expected the domain's XML as a string")
        if "__init__" in methods:
            self.say("hint", methods["__init__"], "__init__ is not called for by PVC's manual: put what it does into setup()")
        for name, method in methods.items():
            if name != "create" and name in STEPS and any(isinstance(n, ast.Return) and n.value is not None for n in own(method)):
                self.say("hint", method, "what %s returns is not looked at" % name)
        if {"prepare", "install"} & set(methods) and "cleanup" not in methods and plain and uses(cls, ("map_volume", "mount")):
            self.say("hint", cls, "cleanup() is missing: what is mapped or mounted stays so until the job ends")

    def function(self, function):
        if isinstance(function, ast.AsyncFunctionDef):
            self.say("error", function, "install is a coroutine: expected an ordinary function")
        args = function.args
        names = [a.arg for a in args.args + args.kwonlyargs]
        if args.posonlyargs:
            self.say("error", function, "install takes %s by position: it is called with keywords only" % args.posonlyargs[0].arg)
        if not args.kwarg:
            missing = [n for n in GIVEN if n not in names]
            if missing:
                self.say("error", function, "install takes no **kwargs and no %s: it is called with %s and the profile's arguments" % (", ".join(missing), ", ".join(GIVEN)))
            else:
                self.say("hint", function, "install takes no **kwargs: a profile with any other argument cannot use it")

    def visit_FunctionDef(self, node):
        self.inside.append(node.name)
        self.generic_visit(node)
        self.inside.pop()

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_ClassDef = visit_FunctionDef

    def visit_Try(self, node):
        guards = any(handles(h) for h in node.handlers)
        self.guarded += guards
        for child in node.body:
            self.visit(child)
        self.guarded -= guards
        for child in node.handlers + node.orelse + node.finalbody:
            self.visit(child)

    def missing(self, node, text):
        self.say("hint" if self.guarded else "error", node, text)

    def visit_Import(self, node):
        for alias in node.names:
            top = alias.name.split(".")[0]
            if top in PACKAGES and alias.name != top and alias.name not in KNOWN:
                self.missing(node, "module %s does not exist; the modules are %s" % (alias.name, modules(top)))

    def visit_ImportFrom(self, node):
        name = node.module or ""
        top = name.split(".")[0]
        if node.level:
            self.missing(node, "a script is one file: there is nothing to import from %s" % ("." * node.level + name))
        elif top not in PACKAGES:
            return
        elif name not in KNOWN and name != top:
            self.missing(node, "module %s does not exist; the modules are %s" % (name, modules(top)))
        else:
            there = set(KNOWN.get(name, ())) | {m.split(".")[1] for m in KNOWN if m.startswith(name + ".")}
            for alias in node.names:
                if alias.name != "*" and alias.name not in there:
                    self.missing(node, "%s has no %s; it has %s" % (name, alias.name, ", ".join(sorted(there))))

    def visit_Constant(self, node):
        if isinstance(node.value, str) and id(node) not in self.docs:
            found = MIRROR.search(node.value)
            if found:
                self.say("hint", node, "%s is written into the script: take the mirror from an argument (script_arguments)" % found.group())

    def visit_Call(self, node):
        called = dotted(node.func)
        if called in ("time.sleep", "sleep"):
            self.say("hint", node, "a step that sleeps holds its job up: wait for what it waits for")
        elif called in ("os._exit", "sys.exit", "exit", "quit"):
            self.say("hint", node, "%s fails the job: return, or call self.fail(message)" % called)
        elif not self.inside and called in ("os.system", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output"):
            self.say("hint", node, "%s runs while the script is loaded: put it into setup()" % called)
        self.generic_visit(node)


def own(function):
    """The nodes of a function's body, without those of functions and classes within."""
    todo = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))


def arity(function):
    args = function.args
    most = len(args.posonlyargs) + len(args.args)
    least = most - len(args.defaults)
    if any(d is None for d in args.kw_defaults):
        return 2, 0  # nothing is given by name
    return least, float("inf") if args.vararg else most


def parameters(function):
    names = [a.arg for a in function.args.posonlyargs + function.args.args + function.args.kwonlyargs]
    return ", ".join(names) or "nothing"


def names_bound(node):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [a.asname or a.name for a in node.names]
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)]
    if isinstance(node, (ast.If, ast.Try, ast.With)):
        return [
            getattr(n, "name", None) for n in ast.walk(node) if isinstance(n, (ast.ClassDef, ast.FunctionDef))
        ]
    return []


def handles(handler):
    """Whether an except clause catches an ImportError."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    caught = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
    return any(t is None or getattr(t, "id", None) in caught for t in types)


def dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([getattr(node, "id", "")] + parts[::-1])


def uses(tree, words):
    return any(
        isinstance(n, ast.Name) and n.id in words or isinstance(n, ast.Attribute) and n.attr in words or isinstance(n, ast.Constant) and n.value in words
        for n in ast.walk(tree)
    )


def modules(top):
    return ", ".join(sorted(m for m in KNOWN if m.startswith(top + ".")))


def check(source):
    try:
        tree = ast.parse(source, "script")
    except SyntaxError as e:
        return [{"line": e.lineno or 0, "level": "error", "text": "syntax: " + (e.msg or str(e))}]
    except (ValueError, RecursionError, MemoryError) as e:
        return [{"line": 0, "level": "error", "text": "Python cannot read it: %s" % (str(e) or type(e).__name__)}]
    found = Check()
    try:
        found.module(tree)
    except RecursionError:
        found.say("error", None, "it is nested too deeply to be looked at")
    return sorted(found.findings, key=lambda f: (f["line"], f["level"], f["text"]))


if __name__ == "__main__":
    json.dump(check(sys.stdin.buffer.read()), sys.stdout)
