package python

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// interpreter is what the tests run: whatever Python 3 is there.
const interpreter = "python3"

// TestPython runs the tests of the runner and the library, which are Python's own.
func TestPython(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, "-B", "-m", "unittest", "discover", "-s", "tests")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("skipped=")) {
		t.Errorf("tests were skipped:\n%s", out)
	}
}

// TestOldest holds that nothing in what is embedded is newer than Python 3.9.
func TestOldest(t *testing.T) {
	t.Parallel()
	files := Files()
	files["check.py"] = []byte(checker)
	for name, text := range files {
		cmd := exec.CommandContext(t.Context(), interpreter, "-I", "-c",
			"import ast, sys; ast.parse(sys.stdin.buffer.read(), sys.argv[1], feature_version=(3, 9))", name)
		cmd.Stdin = bytes.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	files := Files()
	for _, name := range []string{"runner.py", "lib/seedbed/__init__.py", "lib/seedbed/_session.py", "lib/seedbed/libvirt_schema.py"} {
		if len(files[name]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	for name := range files {
		if filepath.Ext(name) != ".py" || strings.Contains(name, "test") {
			t.Errorf("%s is shown to scripts", name)
		}
	}
	if argv := Argv("/usr/bin/python3"); argv[0] != "/usr/bin/python3" || argv[len(argv)-1] != "/run/seedbed/runner.py" ||
		!slices.Contains(argv, "-I") {
		t.Errorf("command: %q", argv)
	}
	if !slices.Contains(Env(), "LC_ALL=C.UTF-8") {
		t.Errorf("environment: %q", Env())
	}
}

const head = "from seedbed import VMBuilder, domain_xml\n\n\nclass VMBuilderScript(VMBuilder):\n" +
	"    def create(self):\n        return domain_xml(self)\n"

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []Finding
	}{
		"class":    {head, []Finding{}},
		"function": {"def install(**kwargs):\n    pass\n", []Finding{}},
		"made by a condition": {"try:\n    import x\nexcept ImportError:\n    pass\nif True:\n    def install(**kwargs):\n        pass\n",
			[]Finding{}},
		"all of PVC's": {"from daemon_lib.vmbuilder import VMBuilder, ProvisioningError, open_zk, chroot\n" +
			"from pvcapid.Daemon import config\nimport daemon_lib.ceph as c\nimport pvcapid.libvirt_schema\n" +
			strings.TrimPrefix(head, "from seedbed import VMBuilder, domain_xml\n"), []Finding{}},
		"empty":     {" \n", []Finding{{0, Error, "it is empty"}}},
		"NUL":       {"a = 1\nb = '\x00'\n", []Finding{{2, Error, "it has a NUL byte"}}},
		"not UTF-8": {"a = 1\n\nb = '\xff'\n", []Finding{{3, Error, "it is not UTF-8: byte 0xff"}}},
		"too long": {strings.Repeat("#", int(seedbed.MaxDocument)+1),
			[]Finding{{0, Error, "it has 16777217 bytes: at most 16MiB are kept"}}},
		"syntax": {"a = 1\nreturn = 2\n", []Finding{{2, Error, "syntax: invalid syntax"}}},
		"neither": {"a = 1\n",
			[]Finding{{0, Error, "there is neither a class VMBuilderScript(VMBuilder) nor a function install(**kwargs)"}}},
		"no base": {"class VMBuilderScript:\n    def create(self):\n        return ''\n",
			[]Finding{{1, Error, "VMBuilderScript extends nothing: expected class VMBuilderScript(VMBuilder)"}}},
		"no create": {"from seedbed import VMBuilder\nclass VMBuilderScript(VMBuilder):\n    pass\n",
			[]Finding{{2, Error, "create() is missing: it returns the domain's XML, as by seedbed.domain_xml(self)"}}},
		"create of nought": {
			"from seedbed import VMBuilder\nclass VMBuilderScript(VMBuilder):\n    def create(self):\n        def f():\n            return 1\n",
			[]Finding{{3, Error, "create returns nothing: expected the domain's XML as a string"}},
		},
		"parameters": {head + "    def install(self, target):\n        pass\n",
			[]Finding{{7, Error, "install takes self, target: a step takes only self"}}},
		"no self":         {head + "    def install():\n        pass\n", []Finding{{7, Error, "install takes nothing: a step takes only self"}}},
		"more by default": {head + "    def install(self, target=None, *rest, **more):\n        pass\n", []Finding{}},
		"coroutine": {head + "    async def install(self):\n        pass\n",
			[]Finding{{7, Error, "install is a coroutine: a step is an ordinary method"}}},
		"generator": {head + "    def install(self):\n        yield 1\n",
			[]Finding{{7, Error, "install is a generator: nothing of it would run"}}},
		"unknown name": {head + "    def install(self):\n        from daemon_lib.common import getstate\n",
			[]Finding{{8, Error, "daemon_lib.common has no getstate; it has run_os_command"}}},
		"unknown module": {head + "import daemon_lib.vm\n",
			[]Finding{{7, Error, "module daemon_lib.vm does not exist; " +
				"the modules are daemon_lib.ceph, daemon_lib.common, daemon_lib.libvirt_schema, daemon_lib.vmbuilder"}}},
		"guarded import": {head + "try:\n    import daemon_lib.vm\nexcept (ImportError, OSError):\n    from . import vm\n", []Finding{
			{8, Hint, "module daemon_lib.vm does not exist; " +
				"the modules are daemon_lib.ceph, daemon_lib.common, daemon_lib.libvirt_schema, daemon_lib.vmbuilder"},
			{10, Error, "a script is one file: there is nothing to import from ."}}},
		"create elsewhere": {"from seedbed import VMBuilder, domain_xml\nclass VMBuilderScript(VMBuilder):\n    create = domain_xml\n",
			[]Finding{}},
		"relative": {head + "from . import other\n", []Finding{{7, Error, "a script is one file: there is nothing to import from ."}}},
		"function's parameters": {"def install(vm_name, disks):\n    pass\n", []Finding{{1, Error,
			"install takes no **kwargs and no vm_id, temporary_directory, " +
				"networks: it is called with vm_name, vm_id, temporary_directory, disks, networks and the profile's arguments"}}},
		"mirror": {head + "    def install(self):\n        self.mirror = 'http://deb.example.org/debian'\n", []Finding{{8, Hint,
			"http://deb.example.org/ is written into the script: take the mirror from an argument (script_arguments)"}}},
		"sleep": {head + "    def install(self):\n        import time\n        time.sleep(1)\n",
			[]Finding{{9, Hint, "a step that sleeps holds its job up: wait for what it waits for"}}},
		"exit": {head + "    def install(self):\n        import sys\n        sys.exit(0)\n",
			[]Finding{{9, Hint, "sys.exit fails the job: return, or call self.fail(message)"}}},
		"at load": {head + "import os\nos.system('true')\n",
			[]Finding{{8, Hint, "os.system runs while the script is loaded: put it into setup()"}}},
		"constructor": {head + "    def __init__(self, *a, **k):\n        super().__init__(*a, **k)\n",
			[]Finding{{7, Hint, "__init__ is not called for by PVC's manual: put what it does into setup()"}}},
		"returns":      {head + "    def setup(self):\n        return 1\n", []Finding{{7, Hint, "what setup returns is not looked at"}}},
		"runs nothing": {"open('/dev/null/x')\nraise SystemExit(3)\n" + head, []Finding{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Check(t.Context(), interpreter, []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := Check(t.Context(), "python3-of-nowhere", []byte(head)); !errors.Is(err, ErrNoInterpreter) {
		t.Errorf("no interpreter: %v", err)
	}
}

// TestCheckScripts holds that the check finds no fault with scripts that run.
func TestCheckScripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("tests/scripts/*.py")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 5 {
		t.Fatalf("scripts: %q", paths)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found, err := Check(t.Context(), interpreter, text)
		if err != nil || len(found) != 0 {
			t.Errorf("%s: %v, %v", path, found, err)
		}
	}
}

func FuzzCheckText(f *testing.F) {
	f.Add([]byte("a\n\xff"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, found := range CheckText(text) {
			if found.Level != Error || found.Text == "" || found.Line < 0 || found.Line > 1+bytes.Count(text, []byte("\n")) {
				t.Errorf("%q: %+v", text, found)
			}
		}
	})
}
