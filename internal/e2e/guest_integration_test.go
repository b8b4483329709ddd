//go:build integration && libvirt

package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/lab"
	"seedbed/internal/sample"
)

const userData = `#cloud-config
locale: C.UTF-8
ssh_genkeytypes: [ed25519]
runcmd:
  - [sh, -c, 'echo "SEEDBED host $(hostname)" >/dev/console']
  - [sh, -c, 'ip -4 route show | sed "s/^/SEEDBED route /" >/dev/console']
  - [sh, -c, 'ip -4 -o addr show scope global | sed "s/^/SEEDBED addr /" >/dev/console']
  - [sh, -c, 'ip -6 route show | sed "s/^/SEEDBED route6 /" >/dev/console']
  - [sh, -c, 'ip -6 -o addr show scope global | sed "s/^/SEEDBED addr6 /" >/dev/console']
  - [sh, -c, 'getent ahostsv6 guest1.lab.internal | head -1 | sed "s/^/SEEDBED full name6 /" >/dev/console']
  - [sh, -c, 'ip -o link show | sed "s/^/SEEDBED link /" >/dev/console']
  - [sh, -c, 'getent ahostsv4 guest1 | head -1 | sed "s/^/SEEDBED short name /" >/dev/console']
  - [sh, -c, 'getent ahostsv4 guest1.lab.internal | head -1 | sed "s/^/SEEDBED full name /" >/dev/console']
  - [sh, -c, 'cloud-init query platform cloud_name subplatform 2>/dev/null | tr "\n" " " | sed "s/^/SEEDBED query /" >/dev/console']
  - [sh, -c, 'sed "s/^/SEEDBED result /" /run/cloud-init/result.json >/dev/console || true']
  - [sh, -c, 'cut -c1-60 /root/.ssh/authorized_keys | sed "s/^/SEEDBED key /" >/dev/console || true']
  - - sh
    - -c
    - >-
      (while sleep 1; do now=$(ls /dev/disk/by-id | tr "\n" " ");
      [ "$now" = "$was" ] || echo "SEEDBED disks $now." >/dev/console; was=$now; done) &
  - - python3
    - -c
    - |
      import http.client, os
      say = lambda *words: print("SEEDBED imds", *words, file=open("/dev/console", "w"), flush=True)
      def ask(host, method, path, **headers):
          c = http.client.HTTPConnection(host, 80, timeout=5)
          c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
          r = c.getresponse()
          return r.status, r.read().decode()
      v4 = "169.254.169.254"
      nic = [n for n in os.listdir("/sys/class/net") if n != "lo"][0]
      say("without a token", ask(v4, "GET", "/latest/meta-data/instance-id")[0])
      say("through another", ask(v4, "PUT", "/latest/api/token", X_aws_ec2_metadata_token_ttl_seconds="60", X_Forwarded_For="10.0.0.1")[0])
      token = ask(v4, "PUT", "/latest/api/token", X_aws_ec2_metadata_token_ttl_seconds="60")[1]
      get = lambda host, path: ask(host, "GET", path, X_aws_ec2_metadata_token=token)
      say("tag", *get(v4, "/latest/meta-data/tags/instance/role"))
      say("IPv6", *get("fe80::a9fe:a9fe%" + nic, "/latest/meta-data/local-hostname"))
      say("Amazon's IPv6", *get("fd00:ec2::254", "/latest/meta-data/ipv6"))
` + ofMachine

// TestGuest is the main path: one signed webhook boots an unmodified Debian
// guest by its own boot loader, which finds its metadata, of which nothing is
// told without a session token, runs its user-data and reports in. It has NICs on two networks, an address and a MAC address
// chosen, whose cloud-init configures both from the metadata, and finds itself by name on both. Then an image is made of its disk, of
// which another guest boots.
func TestGuest(t *testing.T) {
	beside(t)
	image := lab.GuestImage(t)
	host := lab.NewHost(t)
	host.Libvirt()
	// A stage that waits for a guest outlives a busy minute.
	s := lab.NewStack(t, lab.StackOptions{Host: host, Jobs: "{poll: 50ms, stage_timeout: {ready: 30m}}"})
	addImage(t, s, "debian", image)
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnbi2O4bamyvGex+KKx6teSJUluixtO12v0Y6RxM8g6 tester"
	must(t, s, "provisioner", "template", "system", "add", "seen", "--vcpus", "2", "--vram", "1GiB", "--serial", "--vnc")
	addProfile(t, s, seedbed.Profile{
		Name: "web", Image: "debian", System: "seen", VCPUs: 2, Memory: seedbed.GiB, DiskSize: 3 * seedbed.GiB,
		SSHKeys: []string{key}, UserData: []byte(userData), Ready: seedbed.ReadyReport,
		Metadata: seedbed.MetadataOptions{Tokens: seedbed.TokensRequired}, Tags: map[string]string{"role": "frontend"},
	})
	forge := newSender(t, s, wire.HookRequest{Name: "forge"}) // of all profiles, with NICs of their own

	inner := addNetwork(t, s)
	body := `{"action":"create","name":"guest1","profile":"web","params":{"memory":"768MiB"},
		"nics":[{"network":"default"},{"network":"lab","addr":"10.98.7.50","mac":"` + secondMAC + `"}]}`
	sent := time.Now()
	a := forge.post(t, "evt_guest1", sent, body)
	if a.Status != 202 || a.Job == "" {
		t.Fatalf("answer: %+v", a)
	}
	if again := forge.post(t, "evt_guest1", time.Now(), body); again.Status != 202 || again.Job != a.Job || !again.Duplicate {
		t.Errorf("the same delivery again: %+v, want 202 with job %s", again, a.Job)
	}
	second, nic := netip.MustParseAddr("10.98.7.60"), 1 // assigned long before the guest asks
	const second6 = "fd12:3456:789a:2::60"
	further := []netip.Addr{second, netip.MustParseAddr(second6)}
	if _, err := s.API.ChangeInstance(t.Context(), "guest1", wire.InstanceChange{Assign: further, NIC: &nic}); err != nil {
		t.Fatal(err)
	}
	job := waitJob(t, s, a.Job)
	if job.State != seedbed.JobSucceeded {
		console, _ := s.API.Console(t.Context(), "guest1", 8*seedbed.KiB)
		t.Fatalf("job %s: %s\n%s", job.State, job.Error, console)
	}
	t.Logf("reported in after %.1f s", time.Since(sent).Seconds())

	vm, err := s.API.Instance(t.Context(), "guest1")
	if err != nil {
		t.Fatal(err)
	}
	if vm.State != seedbed.InstanceRunning || vm.Reported.IsZero() || vm.Memory != 768*seedbed.MiB {
		t.Errorf("instance: state %s, reported %v, memory %v", vm.State, vm.Reported, vm.Memory)
	}
	if st, err := os.Stat(filepath.Join(s.Dir, "pools/default/images/debian.qcow2")); err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the image that clones share belongs to QEMU's user while one runs: %v %v", st.Sys(), err)
	}
	networks, err := s.API.Networks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gateway := networks[0].Gateway.String()

	// cloud-init's last lines reach the console after the report.
	var console string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the console:\n" + console[max(0, len(console)-8<<10):])
		}
	})
	wants := []string{
		`SEEDBED addr .* ` + regexp.QuoteMeta(vm.NICs[0].Addr.String()) + `/24`,
		`SEEDBED addr .* 10\.98\.7\.50/24`, `SEEDBED addr .* 10\.98\.7\.60/24`,
		`SEEDBED route 10\.98\.8\.0/24 via 10\.98\.7\.9`, `SEEDBED link .* mtu 1400 .* ` + secondMAC,
		`SEEDBED short name (` + regexp.QuoteMeta(vm.NICs[0].Addr.String()) + `|10\.98\.7\.50) `, `SEEDBED full name 10\.98\.7\.50 `,
		`SEEDBED host guest1`,
		`SEEDBED route default via ` + regexp.QuoteMeta(gateway),
		`SEEDBED route 169\.254\.169\.254 via ` + regexp.QuoteMeta(gateway),
		`DataSourceEc2Local`,
		`SEEDBED imds without a token 401`,
		`SEEDBED imds through another 403`,
		`SEEDBED imds tag 200 frontend`,
		`SEEDBED imds IPv6 200 guest1`,
		`SEEDBED imds Amazon's IPv6 200 ` + vm.NICs[0].Addr6.String(),
		`SEEDBED addr6 .* ` + vm.NICs[0].Addr6.String() + `/`, `SEEDBED addr6 .* ` + secondAddr6 + `/`,
		`SEEDBED addr6 .* ` + second6 + `/64`,
		`SEEDBED route6 default via fe80::a9fe:a9fe `, `SEEDBED full name6 ` + secondAddr6,
	}
	lab.Await(t, lab.Patience, "the console shows what user-data printed", func() bool {
		b, err := s.API.Console(t.Context(), "guest1", seedbed.MiB)
		if err != nil {
			t.Fatal(err)
		}
		console = string(b)
		for _, w := range wants {
			if !regexp.MustCompile(w).MatchString(console) {
				return false
			}
		}
		return true
	})

	if routes := regexp.MustCompile(`SEEDBED route default .*`).FindAllString(console, -1); len(routes) != 1 {
		t.Errorf("default routes %q, want that of the network with NAT", routes)
	}

	events, err := s.API.Access(t.Context(), "guest1", client.AccessFilter{Max: 500})
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	kinds := map[string]bool{}
	for _, e := range events {
		kinds[e.Kind] = true
		served = append(served, e.Method+" "+e.Path)
		if e.Status >= 400 && e.Path != "" {
			t.Logf("the guest asked in vain: %s %s %d", e.Method, e.Path, e.Status)
		}
	}
	all := strings.Join(served, "\n")
	for _, want := range []string{"PUT /latest/api/token", "/user-data", "/meta-data/instance-id"} {
		if !strings.Contains(all, want) {
			t.Errorf("the guest never asked %q:\n%s", want, all)
		}
	}
	for _, kind := range []string{seedbed.GuestLease, seedbed.GuestUserData, seedbed.GuestReport} {
		if !kinds[kind] {
			t.Errorf("no %s event", kind)
		}
	}
	if strings.Contains(all+s.Logs(), vm.ReportToken) && vm.ReportToken != "" {
		t.Error("the report token is in a log")
	}

	thawedBy(t, s, vm)
	agentOf(t, s, vm)
	volumesOf(t, s, vm)
	inGroups(t, s, host, vm)
	forwarded(t, s, host, vm, gateway)
	floating(t, s, host, vm)
	leased(t, s)
	was := generalised(t, s, "guest1", "golden")
	if sample.Long() { // minutes
		must(t, s, "vm", "start", "guest1")
		reportsAgain(t, s, vm)
	}
	removeInstance(t, s, "guest1")
	removeNetwork(t, s, host, inner)
	nothingLeft(t, s, "guest1")
	isAnother(t, "guest1", was, direct(t, s, host, "golden"))
	notHere(t, s, host)
	if sample.Long() { // minutes, with those that make the image
		newestGuest(t, s)
	}
}

// reportsAgain rebuilds a guest that has reported in, which is ready once it has done so again,
// through the same daemons.
func reportsAgain(t *testing.T, s *lab.Stack, before seedbed.Instance) {
	t.Helper()
	began := time.Now()
	out, stderr, status := s.CLI("vm", "rebuild", before.Name, "-y", "--force")
	if status != 0 {
		console, _ := s.API.Console(t.Context(), before.Name, 8*seedbed.KiB)
		t.Fatalf("rebuild: status %d: %s%s\n%s", status, out, stderr, console)
	}
	t.Logf("rebuilt, and reported in again, after %.1f s", time.Since(began).Seconds())
	after, err := s.API.Instance(t.Context(), before.Name)
	if err != nil {
		t.Fatal(err)
	}
	if after.ID != before.ID || !after.Reported.After(before.Reported) || after.Volumes[0].Name == before.Volumes[0].Name {
		t.Errorf("rebuilt as %+v, reported %v; it was %+v, reported %v", after, after.Reported, before, before.Reported)
	}
}

// volumesOf attaches volumes to a running guest on each bus, which finds them by their serial numbers, and lets go of them when they are
// detached.
func volumesOf(t *testing.T, s *lab.Stack, vm seedbed.Instance) {
	t.Helper()
	shows := func(what string, want bool, serials ...string) {
		t.Helper()
		lab.Await(t, lab.Patience, what, func() bool {
			b, err := s.API.Console(t.Context(), vm.Name, seedbed.MiB)
			if err != nil {
				t.Fatal(err)
			}
			seen := regexp.MustCompile(`SEEDBED disks [^\n]*\.`).FindAllString(string(b), -1)
			if len(seen) == 0 {
				return false
			}
			for _, serial := range serials {
				if strings.Contains(seen[len(seen)-1], serial) != want {
					return false
				}
			}
			return true
		})
	}
	run := func(args ...string) {
		t.Helper()
		if out, stderr, status := s.CLI(args...); status != 0 {
			t.Fatalf("%v: status %d: %s%s", args, status, out, stderr)
		}
	}
	var serials []string
	for name, bus := range map[string]string{"data": seedbed.BusVirtio, "logs": seedbed.BusSCSI} {
		run("volume", "add", name, "--size", "64MiB")
		run("volume", "attach", name, vm.Name, "--bus", bus)
		v, err := s.API.Volume(t.Context(), name)
		if err != nil || v.State != seedbed.VolumeAttached || v.Holder != vm.Name {
			t.Fatalf("volume %+v, %v", v, err)
		}
		serials = append(serials, v.Serial)
	}
	shows("the guest finds the volumes", true, serials...)
	for _, name := range []string{"data", "logs"} {
		run("volume", "detach", name, vm.Name)
	}
	shows("the guest has let go of the volumes", false, serials...)
	for _, name := range []string{"data", "logs"} {
		run("volume", "remove", name, "-y")
	}
}
