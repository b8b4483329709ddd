//go:build integration

package script

import (
	"testing"

	"seedbed/provision/script/sandbox"
	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

func TestContract(t *testing.T) {
	good := `
from seedbed import VMBuilder
from seedbed.ceph import add_volume
class VMBuilderScript(VMBuilder):
    def setup(self): self.log_info("hello")
    def create(self): return "<domain/>"
    def prepare(self): add_volume(None, "default", "web1_sda", "1G")
    def install(self): print("installed")
`
	drivertest.TestScripts(t, drivertest.ScriptTexts{
		Good: good, Bad: in("install", "self.fail('no luck')"), Broken: "def (\n", Endless: in("setup", "while True: pass"),
	}, func(t *testing.T) worker.Scripts { return newRig(t, sandbox.Limits{}).Driver })
}
