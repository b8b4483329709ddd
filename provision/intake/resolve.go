package intake

import (
	"context"
	"errors"

	"seedbed"
)

// uses returns the qualified name of an image or network that a request of a project names. What the
// project may not use is ErrInvalid, like what does not exist.
func (in *Intake) uses(ctx context.Context, kind seedbed.PublishedKind, project, name string) (string, error) {
	qualified, err := in.store.Resolve(ctx, kind, project, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		err = kind.Missing(seedbed.ErrInvalid, name)
	}
	return qualified, err
}

// usable returns ErrInvalid, naming the profile, unless a project may still use the image or network that
// it used when the profile, or a template of it, was written.
func (in *Intake) usable(ctx context.Context, kind seedbed.PublishedKind, project, profile, qualified string) error {
	_, err := in.store.Resolve(ctx, kind, project, seedbed.Explicit(qualified))
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses %s %s, which does not exist", profile, kind, qualified)
	}
	return err
}

// look checks the image or network, at name, that a profile gives an instance of a project, and makes the
// name a qualified one. What the profile names is the image or network that its own project uses. What an
// expression names, which may be a value of the request, must be published to the instance's project as
// well. A profile without a name is made of names that were looked up.
func (in *Intake) look(ctx context.Context, m *tailored, kind seedbed.PublishedKind, project string, name *string) (err error) {
	of := seedbed.ProjectOf(m.Name)
	switch {
	case *name == "" || m.Name == "":
		return nil
	case m.Expressions[string(kind)] == "":
		return in.usable(ctx, kind, of, m.Name, *name)
	}
	asked := *name
	if *name, err = in.uses(ctx, kind, of, asked); err == nil {
		_, err = in.uses(ctx, kind, project, seedbed.Explicit(*name))
	}
	if errors.Is(err, seedbed.ErrInvalid) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses %s %s, which does not exist", m.Name, kind, seedbed.Clip(asked))
	}
	return err
}
