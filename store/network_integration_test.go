//go:build integration

package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/store/sqldb"
)

// hostPair is a database on PostgreSQL, which counts its deadlocks, and two hosts that use it.
type hostPair struct {
	*testing.T
	ctx      context.Context
	db       *DB
	hosts    [2]*DB
	observer *DB
	name     string
}

func openHostPair(t *testing.T) *hostPair {
	t.Helper()
	s := postgresServer(t)
	h := &hostPair{T: t, name: s.Database(t, s.template), observer: s.use(t, s.Database(t, s.template))}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	h.ctx, h.db = ctx, do(Open(ctx, s.config(h.name)))(t)
	for i := range h.hosts {
		h.hosts[i] = do(Open(ctx, s.config(h.name)))(t)
	}
	return h
}

func (h *hostPair) ask(query string) int {
	h.Helper()
	return do(sqldb.Value[int](h.observer.sql.Read.QueryRowContext(h.Context(), query, h.name)))(h.T)
}

// hold locks rows until the returned function is called.
func (h *hostPair) hold(query string) (release func()) {
	h.Helper()
	tx := do(h.db.sql.Write.BeginTx(h.ctx, nil))(h.T)
	do(tx.ExecContext(h.ctx, query))(h.T)
	return func() {
		h.Helper()
		if err := tx.Commit(); err != nil {
			h.Fatal(err)
		}
	}
}

// waiting waits until n transactions wait for locks.
func (h *hostPair) waiting(n int) {
	h.Helper()
	lab.Await(h.T, lab.Patience, fmt.Sprintf("%d wait", n), func() bool {
		return h.ask(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'`) >= n
	})
}

// noDeadlocks closes the database and checks that it had none.
func (h *hostPair) noDeadlocks() {
	h.Helper()
	if err := errors.Join(h.db.Close(), h.hosts[0].Close(), h.hosts[1].Close()); err != nil {
		h.Fatal(err)
	}
	// A connection reports its deadlocks when it ends, at the latest.
	lab.Await(h.T, lab.Patience, "the connections end",
		func() bool { return h.ask(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1`) == 0 })
	if n := h.ask(`SELECT deadlocks FROM pg_stat_database WHERE datname = $1`); n != 0 {
		h.Errorf("%d deadlocks", n)
	}
}

// Two hosts that make instances in the same networks, in another order, do not wait for each other.
func TestPostgresNetworkOrder(t *testing.T) {
	t.Parallel()
	h := openHostPair(t)
	do(h.db.CreateProject(h.ctx, seedbed.Project{Name: "acme"}))(t)
	for i, network := range []string{"a", "b", "c"} {
		do(h.db.CreateNetwork(h.ctx, seedbed.Network{Name: "acme/" + network, Bridge: "br" + network, MAC: seedbed.NewMAC(),
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, byte(i), 0}), 24), Gateway: netip.AddrFrom4([4]byte{10, 99, byte(i), 1})}))(t)
	}
	// Nobody gets c for now. Without an order, each host would have locked its first network by then.
	release := h.hold(`UPDATE network SET nat = nat WHERE name = 'acme/c'`)
	var making sync.WaitGroup
	for i, networks := range [][]string{{"a", "c", "b"}, {"b", "c", "a"}} {
		instance := seedbed.Instance{ID: seedbed.NewInstanceID(), Name: fmt.Sprintf("web%d", i), VCPUs: 1, Memory: seedbed.GiB}
		for n, network := range networks {
			instance.NICs = append(instance.NICs, seedbed.NIC{Index: n, MAC: seedbed.NewMAC(), Network: "acme/" + network})
		}
		making.Go(func() {
			if _, err := h.hosts[i].Accept(h.ctx,
				seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate}, Instance: &instance}); err != nil {
				t.Error(err)
			}
		})
	}
	h.waiting(2)
	release()
	making.Wait()
	h.noDeadlocks()
}

// Two hosts that accept deliveries of the same hooks in one transaction each, in another order, do
// not wait for each other.
func TestPostgresQuotaOrder(t *testing.T) {
	t.Parallel()
	h := openHostPair(t)
	for _, hook := range []string{"a", "b", "c"} {
		do(h.db.CreateHook(h.ctx, seedbed.Hook{Name: hook, Keys: []seedbed.HookKey{{ID: "k", Secret: make([]byte, 32)}}}))(t)
	}
	do(h.db.CreateNetwork(h.ctx, seedbed.Network{Name: "lan", Bridge: "br0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.99.0.0/24"), Gateway: netip.MustParseAddr("10.99.0.1")}))(t)
	var making sync.WaitGroup
	accept := func(host int, hook string, nics ...seedbed.NIC) {
		name := fmt.Sprintf("web%d%s", host, hook)
		a := seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate},
			Instance: &seedbed.Instance{ID: seedbed.NewInstanceID(), Name: name, VCPUs: 1, Memory: seedbed.GiB, NICs: nics}}
		if hook != "" {
			a.Delivery = &seedbed.Delivery{Hook: hook, ID: name, Quota: seedbed.Quota{Instances: 10}}
		}
		making.Go(func() {
			if _, err := h.hosts[host].Accept(h.ctx, a); err != nil {
				t.Error(err)
			}
		})
	}
	// A first transaction of each host waits for the network, so that the deliveries wait for the next
	// one. That one does not get c for now. Without an order, it would have locked its first hook.
	begin, release := h.hold(`UPDATE network SET nat = nat WHERE name = 'lan'`), h.hold(`UPDATE hook SET name = name WHERE name = 'c'`)
	for host := range h.hosts {
		accept(host, "", seedbed.NIC{MAC: seedbed.NewMAC(), Network: "lan"})
	}
	h.waiting(2)
	for host, hooks := range [][]string{{"a", "c", "b"}, {"b", "c", "a"}} {
		for n, hook := range hooks {
			accept(host, hook)
			lab.Await(t, lab.Patience, "a delivery waits", func() bool { return h.hosts[host].writes.Waiting() == n+1 })
		}
	}
	begin()
	lab.Await(t, lab.Patience, "the deliveries are in a transaction",
		func() bool { return h.hosts[0].writes.Waiting() == 0 && h.hosts[1].writes.Waiting() == 0 })
	h.waiting(2)
	release()
	making.Wait()
	h.noDeadlocks()
}
