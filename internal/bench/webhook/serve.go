package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/bench"
	"seedbed/internal/run"
	"seedbed/provision"
	"seedbed/provision/intake"
	sql "seedbed/store"
	"seedbed/webhook"
)

// store is where a receiver keeps what it accepts, and where bare rows go.
type store struct {
	path, dsn, bare string
	// apart is set if each of the many hooks has a project of its own.
	apart bool
}

// config is the store's own configuration.
func (s store) config() sql.Config {
	return sql.Config{Path: s.path, DSN: s.dsn, Log: slog.New(slog.DiscardHandler)}
}

// hookKey signs every delivery.
var hookKey = bytes.Repeat([]byte{42}, 32)

const hookName = "bench"

// hooks is how many more hooks there are.
const hooks = 1000

// hookOf returns the qualified name of hook n, which is of the default project or of one of its own.
func (s store) hookOf(n int) string {
	project := seedbed.DefaultProject
	if s.apart {
		project = fmt.Sprintf("project-%d", n)
	}
	return seedbed.Qualified(project, fmt.Sprintf("hook-%d", n))
}

// serve is the receiver: it says where it listens, and ends with its input.
func serve(at string) error {
	run.Headroom() // as seedbedd
	at, apart := strings.CutPrefix(at, "apart:")
	s := store{path: at, apart: apart}
	if dsn, ok := strings.CutPrefix(at, "dsn:"); ok {
		s = store{dsn: dsn}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.dsn != "" {
		if err := sql.Migrate(ctx, s.config()); err != nil {
			return err
		}
	}
	db, err := sql.Open(ctx, s.config())
	if err != nil {
		return err
	}
	defer db.Close()
	requests := newIntake(db)
	if err := furnish(ctx, db, requests, s); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	bench.Served(ln.Addr(), cancel)
	return webhook.New(webhook.Config{Hooks: db, History: db, Jobs: db, Intake: requests, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, ln)
}

func newIntake(db *sql.DB) *intake.Intake {
	return provision.NewIntake(db, intake.Serving{Node: "bench"})
}

// furnish makes what a create needs: an image, a network with room, a profile and hooks.
func furnish(ctx context.Context, db *sql.DB, requests *intake.Intake, s store) error {
	if _, err := requests.Import(ctx, "debian", "default", seedbed.ImportSpec{Path: "/debian.qcow2"}, seedbed.JobOptions{}); err != nil {
		return err
	}
	job, err := db.ClaimJob(ctx, "bench", time.Minute)
	if err != nil {
		return err
	}
	image := seedbed.ImageInfo{Pool: "default", Name: "debian", Job: job.ID, Size: seedbed.GiB, Format: "qcow2"}
	for _, step := range []seedbed.Step{{Next: "import", Total: 1}, {Done: "import", Total: 1, Image: &image}} {
		if err := db.Step(ctx, job.Ref(), step); err != nil {
			return err
		}
	}
	if err := db.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}); err != nil {
		return err
	}
	if _, err := db.CreateNetwork(ctx, seedbed.Network{Name: "default", Bridge: "seedbed0", MAC: seedbed.NewMAC(),
		Prefix: netip.MustParsePrefix("10.64.0.0/10"), Gateway: netip.MustParseAddr("10.64.0.1")}); err != nil {
		return err
	}
	if _, err := db.CreateProfile(ctx,
		seedbed.Profile{Name: "small", Image: "debian", VCPUs: 1, Memory: 512 * seedbed.MiB, Network: "default"}); err != nil {
		return err
	}
	if _, err := db.PublishProfile(ctx, "small", seedbed.Publication{All: true}); err != nil {
		return err
	}
	h := seedbed.Hook{Name: hookName, Keys: []seedbed.HookKey{{ID: "k1", Secret: hookKey}}}
	h.Scheme = seedbed.SchemeStandard
	if _, err = db.CreateHook(ctx, h); err != nil {
		return err
	}
	for n := range hooks {
		h.Name = s.hookOf(n)
		h.Project = seedbed.ProjectOf(h.Name)
		if s.apart {
			if _, err := db.CreateProject(ctx, seedbed.Project{Name: h.Project}); err != nil {
				return err
			}
		}
		if _, err := db.CreateHook(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// receiver starts this program again as the receiver on that store.
func receiver(ctx context.Context, s store) (*bench.Child, error) {
	at := s.path
	if s.apart {
		at = "apart:" + at
	}
	if s.dsn != "" {
		at = "dsn:" + s.dsn
	}
	return bench.StartChild(ctx, serving, at)
}
