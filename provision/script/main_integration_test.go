//go:build integration

package script

import (
	"os"
	"testing"

	"seedbed/provision/script/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init() // this program is a sandbox's first process too
	os.Exit(m.Run())
}
