package plans

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"seedbed"
)

// A script may map an image, as PVC's script for OVA images does with their volumes. It is then
// given a volume of the instance that is a clone of the image. So nothing that the script writes
// reaches the image, and undo knows the clone like every other volume. The clone is in no domain,
// and is removed with the script.

func shownPrefix(id seedbed.InstanceID) string { return string(id) + "-source-" }

// shows reports whether a volume of that name stands for an image.
func shows(id seedbed.InstanceID, name string) bool {
	return strings.HasPrefix(name, shownPrefix(id))
}

// stands returns the volume that already stands for the image of a call.
func stands(inst seedbed.Instance, c seedbed.ScriptCall) (name string, ok bool) {
	if c.Name != "map_volume" {
		return "", false
	}
	i := slices.IndexFunc(inst.Volumes, func(v seedbed.Volume) bool {
		return v.Pool == c.Pool && v.Image == c.Volume && shows(inst.ID, v.Name)
	})
	if i < 0 {
		return "", false
	}
	return inst.Volumes[i].Name, true
}

// showing returns a name for the next volume that stands for an image.
func showing(inst seedbed.Instance) string {
	n := 0
	for _, v := range inst.Volumes {
		if shows(inst.ID, v.Name) {
			n++
		}
	}
	return shownPrefix(inst.ID) + strconv.Itoa(n)
}

// dropShown removes the volumes that stood for images.
func (t *task) dropShown(ctx context.Context) error {
	inst, err := t.scripting(ctx)
	if err != nil {
		return err
	}
	inst.Volumes = slices.DeleteFunc(inst.Volumes, func(v seedbed.Volume) bool { return !shows(inst.ID, v.Name) })
	return t.forgetVolumes(ctx, inst)
}
