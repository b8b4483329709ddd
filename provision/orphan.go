package provision

import (
	"context"

	"seedbed"
)

// orphanError is why something could not be taken back, with what that is.
type orphanError struct {
	what seedbed.Orphan
	error
}

func (e *orphanError) Unwrap() error { return e.error }

// left is err, which says why something of that kind is left, so that it is known what.
func left(kind seedbed.OrphanKind, pool, name string, err error) error {
	if err == nil {
		return nil
	}
	return &orphanError{seedbed.Orphan{Kind: kind, Pool: pool, Name: name, Why: err.Error()}, err}
}

// orphansOf is what an undo has left, as far as its error tells.
func orphansOf(err error) (all []seedbed.Orphan) {
	switch e := err.(type) {
	case *orphanError:
		return []seedbed.Orphan{e.what}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, orphansOf(one)...)
		}
	case interface{ Unwrap() error }:
		return orphansOf(e.Unwrap())
	}
	return all
}

// keptOf is what a stage has made, as far as is known, that is left as it is for that reason.
func (t *task) keptOf(ctx context.Context, stage, why string) (all []seedbed.Orphan) {
	add := func(kind seedbed.OrphanKind, pool, name string) {
		all = append(all, seedbed.Orphan{Kind: kind, Pool: pool, Name: name, Why: why})
	}
	switch stage {
	case "define", "general-cleanup":
		add(seedbed.OrphanDomain, "", t.job.Subject)
	case "volumes", "take-volumes", "setup":
		inst, err := t.scripting(ctx)
		if err != nil {
			return nil // the stage is told
		}
		for _, v := range inst.Volumes {
			add(seedbed.OrphanVolume, v.Pool, v.Name)
		}
	}
	return all
}
