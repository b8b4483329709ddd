package guestplane

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/netcfg"
)

// lab is a second network, and onLab a guest there.
func lab() seedbed.Network {
	n := network0()
	n.Name, n.Bridge, n.MAC[5], n.NAT = "lab", "seedbed1", 2, false
	n.Prefix, n.Gateway = netip.MustParsePrefix("10.78.0.0/24"), netip.MustParseAddr("10.78.0.1")
	return n
}

func onLab() seedbed.Guest {
	return seedbed.Guest{ID: "ec2a0b1c-2d3e-4f56-8789-0123456789ac", Name: "lab-1", NICs: []seedbed.GuestNIC{{
		ID: 202, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 2}, Network: "lab", Addr: netip.MustParseAddr("10.78.0.12")}}}
}

// TestLeftOut: a network that is left out keeps nothing else from being served, and holds back the
// acknowledgement of who came to it until it is gone or served.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	k := &fakeKernel{}
	p := testPlane(k)
	both := []seedbed.Network{network0(), lab()}
	third := guest0()
	third.ID, third.NICs = "ec2a0b1c-2d3e-4f56-8789-0123456789ad", []seedbed.GuestNIC{
		{ID: 303, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 3}, Network: "default", Addr: netip.MustParseAddr("10.77.0.13")}}
	came, went := []seedbed.InstanceID{onLab().ID}, []seedbed.InstanceID{third.ID}
	revision := int64(0)
	step := func(name, leftOut, held, bridges string, changed []seedbed.InstanceID, guests ...seedbed.Guest) {
		t.Helper()
		k.leaveOut(leftOut)
		s := stateWith(both, guests...)
		s.Since, s.Revision, s.Changed = revision, revision+1, changed
		if revision == 0 || changed == nil {
			s.Since = -1
		}
		revision++
		if err := p.Apply(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err := p.Held()
		if (err == nil) != (held == "") || err != nil && (!strings.Contains(err.Error(), held) || !strings.Contains(err.Error(),
			"somebody else's")) {
			t.Errorf("%s: held because of %v, want %q", name, err, held)
		}
		for _, g := range guests {
			if _, _, ok := p.directory.Find(map[string]string{"default": "seedbed0", "lab": "seedbed1"}[g.NICs[0].Network], g.NICs[0].MAC); !ok {
				t.Errorf("%s: %s is not in the directory", name, g.Name)
			}
		}
		networks, names, _ := p.networks()
		var have []string
		for _, n := range networks {
			have = append(have, n.Bridge)
		}
		if got := strings.Join(have, " "); got != bridges || len(names) != 2 {
			t.Errorf("%s: %s served, want %s; %v followed", name, got, bridges, names)
		}
	}
	step("at the start, both there", "lab", "", "seedbed0", nil, guest0(), onLab())
	step("the guest there goes", "lab", "", "seedbed0", came, guest0())
	step("one comes to it", "lab", "instance ec2a0b1c-2d3e-4f56-8789-0123456789ac is on network lab", "seedbed0", came, guest0(), onLab())
	step("another comes elsewhere", "lab", "network lab", "seedbed0", went, guest0(), onLab(), third)
	step("the first is taken back", "lab", "", "seedbed0", came, guest0(), third)
	step("it comes again, told as a whole", "lab", "network lab", "seedbed0", nil, guest0(), third, onLab())
	step("the bridge is there", "", "", "seedbed0 seedbed1", went, guest0(), onLab())
	joined, had := guest0(), guest0()
	joined.NICs = append([]seedbed.GuestNIC{}, had.NICs[0], seedbed.GuestNIC{ID: 404, MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 4}, Network: "lab",
		Addr: netip.MustParseAddr("10.78.0.14")})
	first := []seedbed.InstanceID{had.ID}
	step("a guest gets a NIC there", "lab", "instance "+string(had.ID)+" is on network lab", "seedbed0", first, joined, onLab())
	step("its other NICs change", "lab", "network lab", "seedbed0", first, joined, onLab())
	step("the NIC is taken back", "lab", "", "seedbed0", first, had, onLab())
	moved := guest0()
	moved.NICs = []seedbed.GuestNIC{had.NICs[0]}
	moved.NICs[0].Network, moved.NICs[0].Addr = "lab", netip.MustParseAddr("10.78.0.15")
	step("its NIC goes there", "lab", "instance "+string(had.ID)+" is on network lab", "seedbed0", first, moved, onLab())
	step("its NIC comes back", "lab", "", "seedbed0", first, had, onLab())
	step("the bridge is there again", "", "", "seedbed0 seedbed1", went, guest0(), onLab())
	step("what was acknowledged", "lab", "", "seedbed0", went, guest0(), onLab(), third)

	// The next look at the host finds it, and tells the loop.
	<-p.changed
	k.leaveOut("")
	if err := p.restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.changed:
	default:
		t.Error("the servers are not told that the network is there")
	}
	if networks, _, _ := p.networks(); len(networks) != 2 {
		t.Errorf("%d networks", len(networks))
	}
	k.leaveOut("lab")
	k.set(1, nil)
	if err := p.restore(t.Context()); err == nil {
		t.Error("another error is not told")
	}
}

// TestLeftOutIsTold: which networks are left out is told at the start of a process, and whenever it changes.
func TestLeftOutIsTold(t *testing.T) {
	t.Parallel()
	var told []string
	fail := true
	p := New(Config{Log: slog.New(slog.DiscardHandler), LeftOut: func(networks map[string]error) error {
		if fail {
			return errors.New("disk full")
		}
		told = append(told, fmt.Sprint(networks))
		return nil
	}})
	settle := func(err error) {
		t.Helper()
		if err := p.settle(func() error { return err }); err != nil {
			t.Fatal(err)
		}
	}
	settle(nil) // fails, and is tried again
	fail = false
	settle(nil)
	settle(nil)
	left := &netcfg.LeftOut{Networks: map[string]error{"lab": errors.New("no uplink")}}
	settle(left)
	settle(left)
	settle(nil)
	if d := cmp.Diff([]string{"map[]", "map[lab:no uplink]", "map[]"}, told); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
}
