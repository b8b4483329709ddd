package rest

import (
	"strings"
	"testing"
)

func TestCheckSSHKey(t *testing.T) {
	t.Parallel()
	const ed25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIKHEChSnMVTXeZ/rV8Dm3A/KSOWpuLrv4Ls0o9JX8xZ5"
	for name, test := range map[string]struct {
		line string
		ok   bool
	}{
		"comment":         {"ssh-ed25519 " + ed25519 + " you@host at work", true},
		"no comment":      {"ssh-ed25519 " + ed25519, true},
		"empty":           {"", false},
		"type alone":      {"ssh-ed25519", false},
		"unknown type":    {"ssh-dss " + ed25519, false},
		"other type":      {"ssh-rsa " + ed25519, false},
		"cut off":         {"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", false},
		"no base64":       {"ssh-ed25519 you@host", false},
		"options":         {`command="id" ssh-ed25519 ` + ed25519, false},
		"line break":      {"ssh-ed25519 " + ed25519 + "\nssh-ed25519 " + ed25519, false},
		"carriage return": {"ssh-ed25519 " + ed25519 + "\r", false},
		"NUL":             {"ssh-ed25519 " + ed25519 + "\x00", false},
		"huge":            {"ssh-ed25519 " + ed25519 + strings.Repeat(" x", maxSSHKey), false},
		"length field":    {"ssh-ed25519 /////w==", false},
		"file name":       {"~/.ssh/id_ed25519.pub", false},
	} {
		if err := checkSSHKey(test.line); (err == nil) != test.ok {
			t.Errorf("%s: error %v, want success %t", name, err, test.ok)
		}
	}
}
