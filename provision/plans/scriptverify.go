package plans

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// verifyScript checks that everything that the script will need exists, before anything is made.
// The messages are PVC's.
func (t *task) verifyScript(ctx context.Context) error {
	s, err := t.scriptRun(ctx)
	if err != nil {
		return err
	}
	for _, n := range s.run.Network.Networks {
		_, err := t.store.Network(ctx, n.VNI)
		if errors.Is(err, seedbed.ErrNotFound) {
			return seedbed.Errorf(seedbed.ErrInvalid, `The network VNI "%s" is not present on the cluster`, n.VNI)
		}
		if err != nil {
			return engine.FromStore(err)
		}
	}
	host, err := effects.ScriptHost.Ask(ctx, t.Worker(), effects.ToolNames{Tools: mkfsOf(s.run.Storage)})
	if err != nil {
		return err
	}
	sizes := map[string]seedbed.Bytes{}
	for _, d := range s.run.Storage.Disks {
		sizes[d.Pool] += d.Size
		if d.Source == "" {
			continue
		}
		image, err := t.store.Image(ctx, d.Source)
		if err == nil && image.Pool != d.Pool || errors.Is(err, seedbed.ErrNotFound) {
			return seedbed.Errorf(seedbed.ErrInvalid, "The source volume %s/%s could not be found", d.Pool, d.Source)
		}
		if err != nil {
			return engine.FromStore(err)
		}
		sizes[d.Pool] += image.Size
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		i := slices.IndexFunc(host.Pools, func(p seedbed.PoolInfo) bool { return p.Name == name })
		if i < 0 {
			return seedbed.Errorf(seedbed.ErrInvalid, `Pool "%s" is not present on the cluster`, name)
		}
		if free := host.Pools[i].Free; free < sizes[name] {
			return seedbed.Errorf(seedbed.ErrFull, `Pool "%s" has only %s GB free but VM requires %s GB`, name, gigabytes(free),
				gigabytes(sizes[name]))
		}
	}
	if len(host.Missing) > 0 {
		return seedbed.Errorf(seedbed.ErrInvalid, "Failed to find binary for %s: it is not installed on node %s",
			strings.Join(host.Missing, ", "), t.Node())
	}
	t.Event("info", 100, "node %s has what the profile needs", t.Node())
	return nil
}

// mkfsOf returns the programs that make the file systems of a storage template.
func mkfsOf(t seedbed.StorageTemplate) []string {
	var tools []string
	for _, d := range t.Disks {
		switch d.Filesystem {
		case "":
		case "swap":
			tools = append(tools, "mkswap")
		default:
			tools = append(tools, "mkfs."+d.Filesystem)
		}
	}
	slices.Sort(tools)
	return slices.Compact(tools)
}

func gigabytes(b seedbed.Bytes) string { return fmt.Sprintf("%.1f", float64(b)/float64(seedbed.GiB)) }
