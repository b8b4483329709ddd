//go:build integration && libvirt

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// curl asks the metadata address from inside a guest; it gives the body, and the status. The limit
// is for a busy computer.
func curl(t *testing.T, guest string, args ...string) (body, status string) {
	t.Helper()
	return curlFor(t, guest, time.Minute, args...)
}

// unanswered is curl for what must get no answer, which takes all of the time.
func unanswered(t *testing.T, guest string, args ...string) (body, status string) {
	t.Helper()
	return curlFor(t, guest, 3*time.Second, args...)
}

func curlFor(t *testing.T, guest string, limit time.Duration, args ...string) (body, status string) {
	t.Helper()
	args = append([]string{"-s", "-m", fmt.Sprint(limit.Seconds()), "-w", `\n%{http_code}`}, args...)
	out, _ := lab.In(t, guest, limit+time.Minute, "curl", args...)
	i := strings.LastIndexByte(out, '\n')
	return out[:max(i, 0)], out[i+1:]
}

const metadataURL = "http://169.254.169.254/latest/"

// plug makes a namespace with one NIC, whose host side has the name of an instance's tap.
func plug(t *testing.T, host string, s *lab.Stack, tap string, nic seedbed.NIC) (guest string) {
	t.Helper()
	guest = lab.Netns(t)
	lab.IP(t, "-n", host, "link", "add", tap, "type", "veth", "peer", "name", "eth0", "netns", guest)
	lab.IP(t, "-n", host, "link", "set", tap, "master", s.Bridge, "up")
	take(t, guest, nic.MAC, nic.Addr.String())
	return guest
}

// take gives a guest's NIC a MAC and an address.
func take(t *testing.T, guest string, mac seedbed.MAC, addr string) {
	t.Helper()
	lab.IP(t, "-n", guest, "addr", "flush", "dev", "eth0")
	lab.IP(t, "-n", guest, "link", "set", "eth0", "down")
	lab.IP(t, "-n", guest, "link", "set", "eth0", "address", mac.String(), "up")
	lab.IP(t, "-n", guest, "addr", "add", addr+"/24", "dev", "eth0")
	lab.IP(t, "-n", guest, "route", "replace", "169.254.169.254/32", "dev", "eth0")
}

// TestGuestPlane runs the real daemons in a namespace with namespaces as guests:
// each is served its own, a thief gets nothing, DHCP gives both routes, and the
// guest plane goes on without seedbedd, also after its own restart.
func TestGuestPlane(t *testing.T) {
	beside(t)
	host := lab.Netns(t)
	s := lab.NewStack(t, lab.StackOptions{Netns: host, URI: "test:///default"})
	addImage(t, s, "blank", lab.BlankImage(t, s.Dir))
	addProfile(t, s, seedbed.Profile{
		Name: "small", Image: "blank", VCPUs: 1, Memory: 64 * seedbed.MiB, Ready: seedbed.ReadyStarted,
		UserData: []byte("#!/bin/sh\necho \x00raw\n"),
	})
	var vms [2]seedbed.Instance
	var guests [2]string
	for i, name := range []string{"honest", "thief"} {
		receipt, err := s.API.CreateInstance(t.Context(), seedbed.Request{Name: name, Profile: "small"})
		if err != nil {
			t.Fatal(err)
		}
		if job := waitJob(t, s, string(receipt.Job)); job.State != seedbed.JobSucceeded {
			t.Fatalf("%s: %s: %s\n%s", name, job.State, job.Error, s.Logs())
		}
		if vms[i], err = s.API.Instance(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		guests[i] = plug(t, host, s, vms[i].NICs[0].ID.Tap(), vms[i].NICs[0])
	}
	own := func(when string) {
		t.Helper()
		for i, vm := range vms {
			if body, status := curl(t, guests[i], metadataURL+"meta-data/instance-id"); status != "200" || body != vm.ID.EC2() {
				t.Errorf("%s: %s got %q (%s), want its own %s", when, vm.Name, body, status, vm.ID.EC2())
			}
		}
	}
	own("at first")
	if body, status := curl(t, guests[0], metadataURL+"user-data"); status != "200" || body != "#!/bin/sh\necho \x00raw\n" {
		t.Errorf("user-data: %q (%s)", body, status)
	}
	token, status := curl(t, guests[0], "-X", "PUT", "-H", "X-aws-ec2-metadata-token-ttl-seconds: 60", metadataURL+"api/token")
	if status != "200" || token == "" {
		t.Fatalf("token: %q (%s)", token, status)
	}
	if body, status := curl(t, guests[0], "-H", "X-aws-ec2-metadata-token: "+token,
		metadataURL+"meta-data/hostname"); status != "200" || body != "honest" {
		t.Errorf("with its token: %q (%s)", body, status)
	}
	if body, status := curl(t, guests[1], "-H", "X-aws-ec2-metadata-token: "+token, metadataURL+"meta-data/hostname"); status != "401" {
		t.Errorf("the other's token: %q (%s), want 401", body, status)
	}

	t.Run("dhcp", func(t *testing.T) {
		script := filepath.Join(s.Dir, "udhcpc.sh")
		if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = bound ] && set\nexit 0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := lab.In(t, guests[0], lab.Patience, "busybox", "udhcpc", "-i", "eth0", "-n", "-q", "-f", "-t", "5",
			"-O", "121", "-O", "249", "-O", "26", "-s", script)
		if err != nil {
			t.Fatalf("udhcpc: %v\n%s\n%s", err, out, s.Logs())
		}
		for _, want := range []string{"ip='" + vms[0].NICs[0].Addr.String() + "'", "hostname='honest'", "169.254.169.254/32", "0.0.0.0/0"} {
			if !strings.Contains(out, want) {
				t.Errorf("the lease has no %s:\n%s", want, out)
			}
		}
		lab.Await(t, lab.Patience, "the lease is recorded", func() bool {
			leases, err := s.API.Leases(t.Context())
			return err == nil && len(leases) == 1 && leases[0].MAC == vms[0].NICs[0].MAC
		})
	})

	t.Run("thief", func(t *testing.T) {
		take(t, guests[1], vms[0].NICs[0].MAC, vms[0].NICs[0].Addr.String())
		if body, status := unanswered(t, guests[1], metadataURL+"meta-data/instance-id"); status != "000" || body != "" {
			t.Errorf("with the other's MAC and address the thief got %q (%s)", body, status)
		}
		take(t, guests[1], vms[1].NICs[0].MAC, vms[0].NICs[0].Addr.String())
		if body, status := unanswered(t, guests[1], metadataURL+"meta-data/instance-id"); status != "000" || body != "" {
			t.Errorf("with the other's address the thief got %q (%s)", body, status)
		}
		take(t, guests[1], vms[1].NICs[0].MAC, vms[1].NICs[0].Addr.String())
		own("afterwards")
	})

	t.Run("alone", func(t *testing.T) {
		s.Kill(lab.Seedbedd)
		own("with seedbedd dead")
		s.Kill(lab.Metadata)
		s.Start(lab.Metadata)
		lab.Await(t, lab.Patience, "guests are answered from the disk", func() bool {
			body, _ := curlFor(t, guests[0], 10*time.Second, metadataURL+"meta-data/instance-id")
			return body == vms[0].ID.EC2()
		})
		own("restarted without seedbedd")
		stranger := seedbed.NIC{MAC: seedbed.NewMAC(), Addr: vms[1].NICs[0].Addr.Next()}
		nobody := plug(t, host, s, "stray0", stranger) // a port that is no tap of ours
		early := plug(t, host, s, "sb4000", stranger)  // a tap that nothing was published for
		if body, status := unanswered(t, nobody, metadataURL+"meta-data/instance-id"); status != "000" {
			t.Errorf("a stranger while the feed is not in sync: %q (%s), want no status", body, status)
		}
		s.Start(lab.Seedbedd)
		s.AwaitAPI()
		if body, status := unanswered(t, early, metadataURL+"meta-data/instance-id"); status != "000" {
			t.Errorf("a tap without a filter: %q (%s), want nothing to pass", body, status)
		}
		lab.Await(t, lab.Patience, "a stranger gets 404 in sync", func() bool {
			_, status := curlFor(t, nobody, 10*time.Second, metadataURL+"meta-data/instance-id")
			return status == "404"
		})
		own("with seedbedd back")
	})

	t.Run("removed", func(t *testing.T) {
		removeInstance(t, s, "thief")
		if body, status := unanswered(t, guests[1], metadataURL+"meta-data/instance-id"); status == "200" {
			t.Errorf("a removed instance is served %q", body)
		}
		removeInstance(t, s, "honest")
	})
}
