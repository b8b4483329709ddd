package guestplane

import (
	"context"
	"errors"
	"log/slog"
	"sync"
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
	b := newBridges(func(ctx context.Context, n seedbed.Network, _ int) {
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
		{"network changed", func() { b.assign(ctx, []seedbed.Network{both[0], {Name: "b", Bridge: "br1", DHCP: true}}) },
			[]string{"-br1", "+br1"}},
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
			case <-time.After(time.Minute):
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

// TestBridgesEndTogether: guests that keep one server busy to its last moment do not hold up the
// end of the others.
func TestBridgesEndTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(context.Context, *bridges)
	}{
		{"networks gone", func(ctx context.Context, b *bridges) { b.assign(ctx, nil) }},
		{"stop", func(_ context.Context, b *bridges) { b.stop() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var ending sync.WaitGroup
			ending.Add(2)
			b := newBridges(func(ctx context.Context, _ seedbed.Network, _ int) {
				<-ctx.Done()
				ending.Done()
				ending.Wait()
			}, func(string) (int, error) { return 5, nil }, quiet)
			b.assign(t.Context(), []seedbed.Network{{Name: "a", Bridge: "br0"}, {Name: "b", Bridge: "br1"}})
			b.arrived(t.Context(), "br0")
			b.arrived(t.Context(), "br1")
			done := make(chan struct{})
			go func() { defer close(done); tt.end(t.Context(), b) }()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Error("one waits for the other")
			}
		})
	}
}
