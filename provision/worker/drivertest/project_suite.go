package drivertest

import (
	"testing"

	"seedbed"
	"seedbed/provision/worker"
)

// testImagesOfProjects keeps images of the same short name, of two projects, apart.
func testImagesOfProjects(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx, jobs := t.Context(), map[string]seedbed.JobID{}
	path, sum := BootableFile(t)
	var made []seedbed.ImageInfo
	for _, name := range []string{"base", "acme/base"} {
		jobs[name] = seedbed.NewJobID()
		info, err := p.ImportImage(ctx, jobs[name], seedbed.ImageSpec{Name: name, Path: path, SHA256: sum}, nil)
		ok(t, "import "+name, err)
		want := seedbed.ImageInfo{Pool: info.Pool, Name: name, Job: jobs[name], Size: BootableSize, Format: "raw", SHA256: sum}
		if info != want {
			t.Errorf("got %+v; want %+v", info, want)
		}
		made = append(made, want)
	}
	images(t, p, made...)
	spec := clone(0)
	spec.Image = "acme/base"
	v, err := p.CloneVolume(ctx, seedbed.NewJobID(), spec)
	ok(t, "clone", err)
	again, err := p.CloneVolume(ctx, seedbed.NewJobID(), spec)
	if err != nil || again != v {
		t.Errorf("clone again: %+v, %v; want %+v", again, err, v)
	}
	is(t, "remove with a clone", p.RemoveImage(ctx, jobs["acme/base"], "acme/base"), seedbed.ErrInUse)
	ok(t, "remove the other image", p.RemoveImage(ctx, jobs["base"], "base"))
	images(t, p, made[1])
	for _, name := range []string{"acme+base", "acme/../base", "default/base", "/base", "acme/"} {
		_, err := p.ImportImage(ctx, seedbed.NewJobID(), seedbed.ImageSpec{Name: name, Path: path}, nil)
		is(t, "import "+name, err, seedbed.ErrInvalid)
	}
	ok(t, "remove the clone", p.RemoveVolume(ctx, spec.Name, spec.Instance))
	ok(t, "remove", p.RemoveImage(ctx, jobs["acme/base"], "acme/base"))
	images(t, p)
}
