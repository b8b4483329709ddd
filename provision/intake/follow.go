package intake

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/provision/template"
)

// Following is the part of the database that a Follower uses.
type Following interface {
	// LiveDocuments returns the instances whose user-data must be rebuilt.
	LiveDocuments(ctx context.Context, limit int) ([]seedbed.LiveDocument, error)
	Instance(ctx context.Context, id seedbed.InstanceID) (seedbed.Instance, error)
	// SetDocuments replaces an instance's documents, unless they are no longer made from was.
	SetDocuments(ctx context.Context, id seedbed.InstanceID, was, source string, docs seedbed.Documents) error
	// PinDocuments makes the instance keep its current documents.
	PinDocuments(ctx context.Context, id seedbed.InstanceID, was, source string) error
}

// Follower rebuilds the user-data of instances that follow a changed profile or document. The rows
// say what is due, so an interrupted run loses nothing, and of two concurrent runs only one
// rebuilds an instance.
type Follower struct {
	store  Following
	intake *Intake
	log    *slog.Logger
	hint   func() <-chan struct{}
	every  time.Duration
}

// NewFollower makes a Follower. hint returns a channel that is closed at the next change of a
// profile or document by this process.
func NewFollower(store Following, intake *Intake, hint func() <-chan struct{}, log *slog.Logger) *Follower {
	return &Follower{store: store, intake: intake, hint: hint, log: log, every: 30 * time.Second}
}

const (
	// followBatch is how many instances are looked up at a time.
	followBatch = 200
	// followPace is the shortest time between two lookups: each reads all instances that follow.
	followPace = time.Second
)

// Run rebuilds user-data until ctx ends: soon after each change, and also at intervals, because
// another host may have made a change, or an instance may have been made from a version before it.
func (f *Follower) Run(ctx context.Context) error {
	for {
		hint := f.hint()
		n, err := f.Once(ctx)
		if err != nil && ctx.Err() == nil {
			f.log.Warn("user-data that follows profiles was not looked at", "err", err)
		}
		if n > 0 && err == nil {
			continue
		}
		sleep.For(ctx, followPace)
		timer := time.NewTimer(f.every)
		select {
		case <-hint:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Once rebuilds the user-data that is due, at most one batch, and returns how many instances that
// were.
func (f *Follower) Once(ctx context.Context) (int, error) {
	due, err := f.store.LiveDocuments(ctx, followBatch)
	if err != nil {
		return 0, err
	}
	for _, d := range due {
		if err := f.follow(ctx, d); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// follow rebuilds the user-data of one instance. If that is not possible, the user-data stays
// unchanged until the next change.
func (f *Follower) follow(ctx context.Context, d seedbed.LiveDocument) error {
	inst, err := f.store.Instance(ctx, d.Instance)
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	docs, err := f.intake.DocumentsOf(ctx, inst)
	if err == nil {
		// If the profile has changed again in the meantime, the instance is due again.
		return f.store.SetDocuments(ctx, inst.ID, d.Source, d.Want, docs)
	}
	if e, ok := errors.AsType[*seedbed.Error](err); !ok || e.Kind == seedbed.ErrUnavailable {
		return err
	}
	f.log.Warn(
		"an instance keeps its user-data: the current one of its profile cannot be served", "instance", inst.Name, "profile", inst.Profile,
		"err", err)
	return f.store.PinDocuments(ctx, inst.ID, d.Source, d.Want)
}

// DocumentsOf builds the documents of an instance from the current version of its profile.
func (in *Intake) DocumentsOf(ctx context.Context, inst seedbed.Instance) (docs seedbed.Documents, err error) {
	profile, err := in.store.Profile(ctx, inst.Profile)
	if err != nil {
		return docs, err
	}
	var asked []string
	if profile.Script != "" { // and no arguments are read from the params
		asked = []string{}
	}
	m, err := in.tailor(ctx, profile, inst.FullName(), declaredOf(profile.Params, inst.Params), asked)
	if err != nil {
		return docs, err
	}
	m.Ready = inst.Ready
	s := shape{userData: m.UserData, vendorData: m.VendorData, vendorInUser: m.VendorDataInUserData, datasource: inst.Datasource,
		metadata: inst.Metadata}
	made, err := in.recipeOf(m, &s, inst.Params)
	if err != nil {
		return docs, err
	}
	if made.only6, err = in.only6(ctx, inst.NICs); err != nil {
		return docs, err
	}
	docs, err = made.fill(inst.ReportToken, template.Values{Guest: in.place(inst), Params: s.rest})
	if m.Script != "" && docs.UserData == nil {
		docs.UserData = []byte{}
	}
	return docs, err
}
