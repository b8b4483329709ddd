package pvc

import (
	"context"

	"seedbed"
	"seedbed/api/server"
)

// shownComposed returns the object that a path of PVC's API is about, for the audit log. It
// leaves out the content of documents, which may hold secrets.
func (r *router) shownComposed(ctx context.Context, who server.Caller, parts []string) (any, error) {
	if parts[0] == "vm" {
		return r.Store.InstanceByName(ctx, who.Instance(parts[1]))
	}
	if parts[0] == "network" && len(parts) > 1 {
		n, err := r.netNamed(ctx, who, parts[1])
		if err != nil {
			return nil, err
		}
		if len(parts) > 2 && parts[2] == "acl" {
			return aclRows(n), nil
		}
		return netInfoOf(n), nil
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
	switch name := parts[1]; parts[0] {
	case "system":
		return shownNow(ctx, r.systems(), who, name, systemRowOf)
	case "network":
		return shownNow(ctx, r.networkTemplates(), who, name, networkTemplateRowOf)
	case "storage":
		return shownNow(ctx, r.storageTemplates(), who, name, storageRowOf)
	case "userdata":
		return shownNow(ctx, r.userData(), who, name,
			func(d seedbed.UserDataDocument) documentBefore { return documentBefore{d.ID, d.Name, len(d.Data)} })
	case "script":
		return shownNow(ctx, r.scripts(), who, name, func(s seedbed.Script) scriptBefore {
			return scriptBefore{documentBefore{s.ID, s.Name, len(s.Text)}, scriptOptionsOf(s.Options)}
		})
	case "ova":
		return shownNow(ctx, r.ovas(), who, name, ovaRowOf)
	case "profile":
		return shownNow(ctx, r.scripted(), who, name, func(p seedbed.Profile) provisionerRow {
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
