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

// usable returns the qualified name of the image or network that a profile of a project names. It returns
// ErrInvalid, naming the profile, unless the project may still use it.
func (in *Intake) usable(ctx context.Context, kind seedbed.PublishedKind, project, profile, name string) (string, error) {
	qualified, err := in.store.Resolve(ctx, kind, project, seedbed.Explicit(name))
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses %s %s, which does not exist", profile, kind, name)
	}
	return qualified, err
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
		*name, err = in.usable(ctx, kind, of, m.Name, *name)
		return err
	}
	*name, err = in.chosen(ctx, m, kind, project, *name)
	return err
}

// chosen returns the qualified name of the object that an expression of a profile names for an instance of a
// project. Both the profile's project and that of the instance must be able to use the object.
func (in *Intake) chosen(ctx context.Context, m *tailored, kind seedbed.PublishedKind, project, name string) (string, error) {
	qualified, err := in.uses(ctx, kind, seedbed.ProjectOf(m.Name), name)
	if err == nil {
		_, err = in.uses(ctx, kind, project, seedbed.Explicit(qualified))
	}
	if errors.Is(err, seedbed.ErrInvalid) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "profile %s uses %s %s, which does not exist", m.Name, kind.Noun(), seedbed.Clip(name))
	}
	return qualified, err
}

// chooses checks the templates and the document that expressions of a profile name for an instance of another
// project. Those that the profile names itself need not be published.
func (in *Intake) chooses(ctx context.Context, m *tailored, project string, names seedbed.PartNames) error {
	if project == seedbed.ProjectOf(m.Name) {
		return nil
	}
	for _, part := range []struct {
		expression string
		kind       seedbed.PublishedKind
		name       string
	}{
		{"system_template", seedbed.PublishedSystemTemplate, names.System},
		{"network_template", seedbed.PublishedNetworkTemplate, names.Network},
		{"storage_template", seedbed.PublishedStorageTemplate, names.Storage},
		{"userdata_document", seedbed.PublishedUserData, names.UserData},
	} {
		if m.Expressions[part.expression] == "" || part.name == "" {
			continue
		}
		if _, err := in.chosen(ctx, m, part.kind, project, part.name); err != nil {
			return err
		}
	}
	return nil
}
