package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// scriptCall makes a volume that the script asks for: first its row, so that undo knows it, and
// then the volume. The answer reports errors of the script; the error is why the job cannot
// continue.
func (t *task) scriptCall(ctx context.Context, c seedbed.ScriptCall) (seedbed.ScriptAnswer, error) {
	text, err := t.scriptVolume(ctx, c)
	switch {
	case err == nil:
		return seedbed.ScriptAnswer{ID: c.ID, OK: true, Message: text}, nil
	case ctx.Err() != nil, errors.Is(err, engine.ErrLost), engine.Unavailable(err), seedbed.KindName(err) == "internal":
		return seedbed.ScriptAnswer{}, err
	}
	return seedbed.ScriptAnswer{ID: c.ID, Message: "ERROR: " + err.Error()}, nil
}

func (t *task) scriptVolume(ctx context.Context, c seedbed.ScriptCall) (string, error) {
	inst, err := t.scripting(ctx)
	if err != nil {
		return "", err
	}
	if name, there := stands(inst, c); there {
		return name, nil
	}
	v, text, err := t.asked(ctx, inst, c)
	if err != nil {
		return "", err
	}
	for _, have := range inst.Volumes {
		if have.Pool == v.Pool && have.Name == v.Name {
			return "", seedbed.Errorf(seedbed.ErrExists, `Volume "%s" in pool "%s" exists already.`, c.Volume, v.Pool)
		}
	}
	if err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.AddVolume(ctx, t.Ref, v) }); err != nil {
		return "", err
	}
	spec := volumeOf(inst, v)
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		_, err := effects.CloneVolume.Do(ctx, t.Worker(), call, spec)
		return err
	})
	if err != nil {
		if !engine.Unavailable(err) && ctx.Err() == nil && !errors.Is(err, engine.ErrLost) { // do not leave a partly made volume
			dropped := t.Write(ctx, func(ctx context.Context) error { return t.store.DropVolume(ctx, t.Ref, v.Pool, v.Name) })
			if dropped != nil {
				return "", dropped
			}
		}
		return "", err
	}
	if shows(inst.ID, v.Name) {
		t.Event("info", t.Progress(), "image %s is shown to the script as a clone, which is removed with it", v.Image)
		return text, nil
	}
	t.Event("info", t.Progress(), "volume %s is ready (%s in pool %s)", v.Name, v.Size, v.Pool)
	return text, nil
}

// asked returns the volume that a call is for, and what the script is told once the volume exists.
func (t *task) asked(ctx context.Context, inst seedbed.Instance, c seedbed.ScriptCall) (v seedbed.Volume, text string, err error) {
	if t.script.failed {
		return v, "", seedbed.Errorf(seedbed.ErrConflict, "the script has failed: no volume is made any more")
	}
	v = seedbed.Volume{Pool: c.Pool, Name: c.Volume + t.suffix()}
	if err := errors.Join(seedbed.CheckName("pool", c.Pool), seedbed.CheckName("volume", c.Volume),
		seedbed.CheckName("volume", v.Name)); err != nil {
		return v, "", seedbed.Errorf(seedbed.ErrInvalid, "%v", err)
	}
	if !slices.Contains(t.script.pools, c.Pool) {
		return v, "", seedbed.Errorf(seedbed.ErrNotFound, `Pool "%s" is not present on the cluster: there is %s`, c.Pool,
			strings.Join(t.script.pools, ", "))
	}
	if shows(inst.ID, c.Volume) {
		return v, "", seedbed.Errorf(seedbed.ErrInvalid, `the volume name "%s" is kept for clones of images that are mapped`, c.Volume)
	}
	switch c.Name {
	case "add_volume":
		if v.Size, err = parseVolumeSize(c.Size); err != nil {
			return v, "", err
		}
		return v, fmt.Sprintf(`Created RBD volume "%s" of size "%s" in pool "%s".`, c.Volume, c.Size, c.Pool), nil
	case "clone_volume":
		v.Image, v.Size, err = t.source(ctx, c.Pool, c.Source)
		return v, fmt.Sprintf(`Cloned RBD volume "%s" to "%s" in pool "%s".`, c.Source, c.Volume, c.Pool), err
	case "map_volume":
		v.Image, v.Size, err = t.source(ctx, c.Pool, c.Volume)
		v.Name = showing(inst)
		return v, v.Name, err
	}
	return v, "", seedbed.Errorf(seedbed.ErrInvalid, "unknown call %q", seedbed.Clip(c.Name))
}

// source returns the name and the size of an image of the pool.
func (t *task) source(ctx context.Context, pool, name string) (string, seedbed.Bytes, error) {
	image, err := t.store.Image(ctx, name)
	if errors.Is(err, seedbed.ErrNotFound) || err == nil && image.Pool != pool {
		err = seedbed.Errorf(seedbed.ErrNotFound, `No volume with name "%s" is present in pool "%s".`, name, pool)
	}
	return image.Name, image.Size, engine.FromStore(err)
}

// fromStoreWrite is like Write, but returns a refusal as it is: it does not go away when the write is tried again.
func (t *task) fromStoreWrite(ctx context.Context, do func(context.Context) error) error {
	var refused error
	err := t.Write(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if err != nil && !errors.Is(err, seedbed.ErrStale) && seedbed.KindName(err) != "internal" {
			refused = err
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return refused
}

// sizeUnits are the units of a volume's size in PVC, each 1024 times the previous one.
const sizeUnits = "KMGTPEZYRQ"

// parseVolumeSize parses a size as scripts give it (PVC's format_bytes_fromhuman): bytes, or a
// number with a one-letter binary unit, which i and B may follow. The volume has whole sectors.
func parseVolumeSize(text string) (seedbed.Bytes, error) {
	bad := seedbed.Errorf(seedbed.ErrInvalid, "the size %q is not usable: expected a number of bytes, or with a unit, such as 8G",
		seedbed.Clip(text))
	s := strings.TrimSpace(text)
	s = strings.TrimSuffix(s, "B")
	s = strings.TrimSuffix(s, "i")
	factor := 1.0
	if n := len(s); n > 0 {
		if at := strings.IndexByte(sizeUnits, s[n-1]&^0x20); at >= 0 && s[n-1] >= 'A' {
			for range at + 1 {
				factor *= 1024
			}
			s = s[:n-1]
		}
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(n > 0) || strings.ContainsAny(s, "xXpPnN_") {
		return 0, bad
	}
	size := n * factor
	if size > float64(seedbed.MaxDisk) {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "the size %q is too large: expected at most %s", seedbed.Clip(text), seedbed.MaxDisk)
	}
	const sector = 512
	return (seedbed.Bytes(size) + sector - 1) / sector * sector, nil
}
