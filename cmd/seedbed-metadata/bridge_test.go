package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

var quiet = slog.New(slog.DiscardHandler)

// TestBridges: what is served follows the interfaces and the networks.
func TestBridges(t *testing.T) {
	t.Parallel()
	// Each service says "+bridge" when it starts and "-bridge" when it ends.
	said := make(chan string, 100)
	numbers := map[string]int{"br0": 5, "br1": 6}
	b := newBridges(func(ctx context.Context, n seedbed.Network) {
		said <- "+" + n.Bridge
		<-ctx.Done()
		said <- "-" + n.Bridge
	}, func(bridge string) (int, error) {
		if n, ok := numbers[bridge]; ok {
			return n, nil
		}
		return 0, errors.New("no such interface")
	}, quiet)
	defer b.stop()
	one := []seedbed.Network{{Name: "a", Bridge: "br0"}}
	both := append(one, seedbed.Network{Name: "b", Bridge: "br1"})
	ctx := t.Context()
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"network before bridge", func() { b.assign(ctx, one) }, nil},
		{"up", func() { b.arrived(ctx, "br0") }, []string{"+br0"}},
		{"up again, the same", func() { b.arrived(ctx, "br0") }, nil},
		{"up again, replaced in a gap", func() { numbers["br0"] = 7; b.arrived(ctx, "br0") }, []string{"-br0", "+br0"}},
		{"down", func() { b.left(ctx, "br0") }, []string{"-br0"}},
		{"down again", func() { b.left(ctx, "br0") }, nil},
		{"up after down", func() { b.arrived(ctx, "br0") }, []string{"+br0"}},
		{"bridge before network", func() { b.arrived(ctx, "br1") }, nil},
		{"network after bridge", func() { b.assign(ctx, both) }, []string{"+br1"}},
		{"same networks", func() { b.assign(ctx, both) }, nil},
		{"network changed", func() { b.assign(ctx, []seedbed.Network{both[0], {Name: "b", Bridge: "br1", DHCP: true}}) }, []string{"-br1", "+br1"}},
		{"network gone", func() { b.assign(ctx, one) }, []string{"-br1"}},
		{"number unknown", func() { delete(numbers, "br0"); b.arrived(ctx, "br0") }, []string{"-br0", "+br0"}},
		{"number known", func() { numbers["br0"] = 7; b.arrived(ctx, "br0") }, []string{"-br0", "+br0"}},
		{"end", b.stop, []string{"-br0"}},
	} {
		step.do()
		var got []string
		for range step.want {
			select {
			case s := <-said:
				got = append(got, s)
			case <-time.After(10 * time.Second):
			}
		}
		select {
		case s := <-said:
			got = append(got, s)
		default:
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
