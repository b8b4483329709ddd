package drivertest_test

import (
	"testing"

	"seedbed/provision/worker"
	"seedbed/provision/worker/drivertest"
)

func TestFakeScripts(t *testing.T) {
	drivertest.TestScripts(t, drivertest.ScriptTexts{
		Good:   "setup: log hello\ncreate: xml <domain/>\nprepare: add_volume default web1_sda 1G\ninstall: print installed\n",
		Bad:    "install: fail no luck\n",
		Broken: "load: fail no Python\n", Endless: "setup: hang\n",
	}, func(*testing.T) worker.Scripts { return drivertest.NewScripts() })
}
