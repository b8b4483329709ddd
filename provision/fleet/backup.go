package fleet

import (
	"context"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// TargetNode returns the node through which a target of backups is reached: its own, or any of those that answer, this control host's
// first. It returns ErrNotFound if there is no such node.
func (f *Fleet) TargetNode(t seedbed.BackupTarget) (string, error) {
	if t.Node != "" {
		_, err := f.named(t.Node)
		return t.Node, err
	}
	now, all := time.Now(), f.Nodes()
	if len(all) == 0 {
		return "", seedbed.Errorf(seedbed.ErrNotFound, "no node reaches backup target %q: there is none (seedbed node add)", t.Name)
	}
	best := slices.MinFunc(all, func(a, b seedbed.Node) int {
		rank := func(n seedbed.Node) int {
			switch {
			case n.State(now) == seedbed.NodeAway:
				return 2
			case n.Name != f.cfg.Home:
				return 1
			}
			return 0
		}
		return rank(a) - rank(b)
	})
	return best.Name, nil
}

// CheckTarget reports whether a target can be reached and written to: see effects.CheckBackupPlace.
func (f *Fleet) CheckTarget(ctx context.Context, t seedbed.BackupTarget) (info seedbed.BackupPlaceInfo, err error) {
	node, err := f.TargetNode(t)
	if err == nil {
		info, err = effects.CheckBackupPlace.Ask(ctx, f.Of(node), t.Place())
	}
	return info, err
}

// ListBackups returns the backups in a target.
func (f *Fleet) ListBackups(ctx context.Context, t seedbed.BackupTarget) (list seedbed.BackupList, err error) {
	node, err := f.TargetNode(t)
	if err == nil {
		list, err = effects.ListBackups.Ask(ctx, f.Of(node), effects.BackupSelection{Place: t.Place()})
	}
	return list, err
}

// BackupManifest returns the manifest of a backup in a target; ErrNotFound without it.
func (f *Fleet) BackupManifest(
	ctx context.Context, t seedbed.BackupTarget, key seedbed.BackupKey,
) (m seedbed.BackupManifest, err error) {
	node, err := f.TargetNode(t)
	if err == nil {
		m, err = effects.ReadManifest.Ask(ctx, f.Of(node), effects.BackupRef{Place: t.Place(), Key: key})
	}
	return m, err
}
