package rest

import (
	"context"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/server"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"p","image":"i","vcpus":1,"memory":"1GiB","user_data":"YQ==","ssh_keys":[]}`))
	f.Add([]byte(`{"name":"p","name":"q"}`))
	f.Add([]byte(`{"memory":"1` + strings.Repeat("0", 100) + `"}`))
	r := &router{&server.Router{Server: server.New(server.Config{
		DefaultNetwork: "default", CheckProfile: func(context.Context, seedbed.PartReader, seedbed.Profile) error { return nil },
	})}}
	f.Fuzz(func(t *testing.T, body []byte) {
		var p seedbed.Profile
		err := server.Decode(body, &p)
		if err == nil {
			if err = r.checkProfile(t.Context(), &p); err == nil && (p.Network == "" || p.Ready == "" || p.VCPUs < 1) {
				t.Errorf("accepted %+v", p)
			}
		}
		if err == nil {
			return
		}
		if p := server.ProblemOf(err); p.Status != 400 && p.Status != 422 || len(p.Detail) > 1000 {
			t.Errorf("%d, %d bytes", p.Status, len(p.Detail))
		}
	})
}

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

// TestEveryHookActionIsNeeded checks that a hook asks for nothing that its maker may not do.
func TestEveryHookActionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, do := range seedbed.Actions() {
		if len(needed[do]) == 0 {
			t.Errorf("a hook that may ask for %s needs no action: add a row to needed", do)
		}
	}
}
