package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/store/sqldb"
)

// An image keeps its node in use, unless another node has the same pool and no node reports the
// pool as its own.
func TestImagesAt(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := func(shared bool) *seedbed.NodeReport {
		return &seedbed.NodeReport{Pools: []seedbed.PoolInfo{{Name: "default", Shared: shared}}}
	}
	shared, private, none := pool(true), pool(false), &seedbed.NodeReport{}
	for name, c := range map[string]struct {
		own, other *seedbed.NodeReport
		kept       bool
	}{
		"shared":                  {shared, shared, false},
		"shared, own unknown":     {nil, shared, false},
		"the only one":            {shared, none, true},
		"the other is unknown":    {shared, nil, true},
		"both private":            {private, private, true},
		"the other says shared":   {private, shared, true},
		"the other has one alone": {shared, private, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, t.TempDir()+"/seedbed.db")
			for n, report := range []*seedbed.NodeReport{c.own, c.other} {
				name := []string{"own", "other"}[n]
				if _, err := db.AddNode(ctx, seedbed.Node{Name: name, Worker: "https://n:7375"}); err != nil {
					t.Fatal(err)
				}
				if report != nil {
					if err := db.NoteNode(ctx, name, *report, "", time.Now()); err != nil {
						t.Fatal(err)
					}
				}
			}
			do(acceptImport(ctx, db, "debian"))(t)
			var got []string
			err := db.sql.Update(ctx, "look", func(tx *sqldb.Tx) error {
				err := sqldb.Exec(ctx, tx, `UPDATE image SET node = 'own', pool = 'default'`)
				if err == nil {
					got, err = imagesAt(ctx, tx, "own")
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if c.kept {
				want = []string{"debian"}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
