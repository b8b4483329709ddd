//go:build integration

package script

import (
	"maps"
	"testing"
	"time"

	"seedbed/provision/script/sandbox"
)

// A script without the network that has tried to reach something, by address or by name, says so if
// it fails. lo is its own.
func TestScriptOffline(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"an address":     {"    socket.create_connection(('192.0.2.1', 80))", true},
		"an address, v6": {"    socket.create_connection(('2001:db8::1', 80))", true},
		"a name server":  {"    socket.getaddrinfo('example.org', 80)", true},
		"a child":        {"    subprocess.run(['getent', 'ahosts', 'example.org'], check=True)", true},
		"nothing":        {"    raise OSError('no mirror')", false},
		"lo":             {"    socket.create_connection(('127.0.0.1', 80))", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, sandbox.Limits{Time: 3 * time.Minute})
			data := maps.Clone(noData)
			data["system_details"] = map[string]any{"vram_mb": 128, "vcpu_count": 1, "serial": true, "vnc": false, "vnc_bind": nil}
			data["system_architecture"], data["mac_template"], data["ceph_monitor_list"] = "x86_64", nil, []any{}
			data["ceph_monitor_port"], data["ceph_monitor_secret"] = "", ""
			_, f := r.run("import socket, subprocess\ndef install(**kwargs):\n"+test.text+"\n", data)
			if f == nil || f.Step != "install" || f.Offline != test.want {
				t.Errorf("failure %+v; want Offline %t", f, test.want)
			}
			r.nothingLeft()
		})
	}
}
