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

// Two hosts that make instances in the same networks, in another order, do not wait for each other.
func TestPostgresNetworkOrder(t *testing.T) {
	t.Parallel()
	s := postgresServer(t)
	name := s.Database(t, s.template)
	observer := s.use(t, s.Database(t, s.template))
	ask := func(query string) int {
		return do(sqldb.Value[int](observer.sql.Read.QueryRowContext(t.Context(), query, name)))(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	db := do(Open(ctx, s.config(name)))(t)
	for i, network := range []string{"a", "b", "c"} {
		do(db.CreateNetwork(ctx, seedbed.Network{Name: network, Bridge: "br" + network, MAC: seedbed.NewMAC(),
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, byte(i), 0}), 24), Gateway: netip.AddrFrom4([4]byte{10, 99, byte(i), 1})}))(t)
	}
	// Nobody gets c for now. Without an order, each host would have locked its first network by then.
	holder := do(db.sql.Write.BeginTx(ctx, nil))(t)
	do(holder.ExecContext(ctx, `UPDATE network SET nat = nat WHERE name = 'c'`))(t)
	var making sync.WaitGroup
	for i, networks := range [][]string{{"a", "c", "b"}, {"b", "c", "a"}} {
		host := do(Open(ctx, s.config(name)))(t)
		instance := seedbed.Instance{ID: seedbed.NewInstanceID(), Name: fmt.Sprintf("web%d", i), VCPUs: 1, Memory: seedbed.GiB}
		for n, network := range networks {
			instance.NICs = append(instance.NICs, seedbed.NIC{Index: n, MAC: seedbed.NewMAC(), Network: network})
		}
		making.Go(func() {
			defer host.Close()
			if _, err := host.Accept(ctx,
				seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobCreate}, Instance: &instance}); err != nil {
				t.Error(err)
			}
		})
	}
	lab.Await(t, lab.Patience, "both wait", func() bool {
		return ask(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'`) >= 2
	})
	err := holder.Commit()
	making.Wait()
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	// A connection reports its deadlocks when it ends, at the latest.
	lab.Await(t, lab.Patience, "the connections end",
		func() bool { return ask(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1`) == 0 })
	if n := ask(`SELECT deadlocks FROM pg_stat_database WHERE datname = $1`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
