package engine

import (
	"context"

	"seedbed"
)

// orphanError says why a resource could not be removed, and which resource that is.
type orphanError struct {
	what seedbed.Orphan
	error
}

func (e *orphanError) Unwrap() error { return e.error }

// Left adds to err, which says why a resource was left behind, which resource that is.
func Left(kind seedbed.OrphanKind, pool, name string, err error) error {
	if err == nil {
		return nil
	}
	return &orphanError{seedbed.Orphan{Kind: kind, Pool: pool, Name: name, Why: err.Error()}, err}
}

// On adds to err the node on which the resources are that were left behind.
func On(node string, err error) error {
	switch e := err.(type) {
	case *orphanError:
		e.what.Node = node
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			_ = On(node, one) // which is one
		}
	case interface{ Unwrap() error }:
		_ = On(node, e.Unwrap()) // which is what e has
	}
	return err
}

// orphansOf returns the resources that an undo has left behind, as far as its error names them.
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

// kept returns the resources that a stage is known to have made and that are kept for the reason
// why.
func (s Stage) kept(ctx context.Context, why string) (all []seedbed.Orphan) {
	if s.Made == nil {
		return nil
	}
	for _, o := range s.Made(ctx) {
		o.Why = why
		all = append(all, o)
	}
	return all
}
