package pvc

import (
	"context"

	"seedbed"
)

// shownComposed returns the object that a path of PVC's API is about, for the audit log. It
// leaves out the content of documents, which may hold secrets.
func (r *router) shownComposed(ctx context.Context, parts []string) (any, error) {
	if parts[0] == "vm" {
		return r.Store.InstanceByName(ctx, parts[1])
	}
	if parts[0] != "provisioner" {
		return nil, nil
	}
	parts = parts[1:]
	if len(parts) > 1 && parts[0] == "template" {
		parts = parts[1:]
	}
	if len(parts) < 2 {
		return nil, nil
	}
	m := seedbed.ExactName(parts[1])
	switch parts[0] {
	case "system":
		return found(ctx, m, r.Store.SystemTemplates, systemRowOf)
	case "network":
		return found(ctx, m, r.Store.NetworkTemplates, networkTemplateRowOf)
	case "storage":
		return found(ctx, m, r.Store.StorageTemplates, storageRowOf)
	case "userdata":
		return found(ctx, m, r.Store.UserDataDocuments,
			func(d seedbed.UserDataDocument) documentBefore { return documentBefore{d.ID, d.Name, len(d.Data)} })
	case "script":
		return found(ctx, m, r.Store.Scripts, func(s seedbed.Script) scriptBefore {
			return scriptBefore{documentBefore{s.ID, s.Name, len(s.Text)}, scriptOptionsOf(s.Options)}
		})
	case "ova":
		return found(ctx, m, r.Store.OVAs, ovaRowOf)
	case "profile":
		return found(ctx, m, r.Store.ScriptedProfiles, func(p seedbed.Profile) provisionerRow {
			p.Arguments = nil // any of them may be a password
			return provisionerRowOf(p)
		})
	}
	return nil, nil
}

// documentBefore is a document without its content.
type documentBefore struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// found returns the one object that read finds, as row shows it, or nil if there is none.
func found[T, R any](
	ctx context.Context, m seedbed.NameMatch, read func(context.Context, seedbed.NameMatch) ([]T, error), row func(T) R,
) (any, error) {
	all, err := read(ctx, m)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return row(all[0]), nil
}
