//go:build ceph && libvirt

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ceph/go-ceph/rbd"
	lv "libvirt.org/go/libvirt"

	"seedbed"
	"seedbed/internal/bench"
)

// do makes a request, waits for its job, and returns how long the job took from its claim.
func (i *installation) do(ctx context.Context, req seedbed.Request) (time.Duration, error) {
	receipt, err := i.intake.Submit(ctx, req, nil)
	if err != nil {
		return 0, err
	}
	job, err := i.await(ctx, receipt.Job)
	return job.Ended.Sub(job.Started), err
}

// snapshots has the engine and the hand take a snapshot of the volume of an instance that runs, bring it back to that while the
// instance is off, and remove the snapshot, in turn.
func snapshots(ctx context.Context, s setup, i *installation, h *hand) ([]bench.Figure, error) {
	const name = "shot"
	if _, err := i.create(ctx, name); err != nil {
		return nil, err
	}
	inst, err := i.db.InstanceByName(ctx, seedbed.InDefault(name))
	if err != nil {
		return nil, err
	}
	var ratios, engine, byHand []float64
	for turn := -1; turn < s.runs; turn++ { // the first warms up
		asked := seedbed.Request{Action: seedbed.DoSnapshot, Name: name, Params: map[string]any{"snapshot": "s1"}}
		took, err := i.do(ctx, asked)
		if err != nil {
			return nil, err
		}
		asked.Action = seedbed.DoSnapshotRemove
		if _, err := i.do(ctx, asked); err != nil {
			return nil, err
		}
		hand, err := h.snapshot(volumePrefix + inst.Volumes[0].Name)
		if err != nil {
			return nil, err
		}
		if turn < 0 {
			continue
		}
		engine, byHand = append(engine, ms(took)), append(byHand, ms(hand))
		ratios = append(ratios, took.Seconds()/hand.Seconds())
	}
	return []bench.Figure{{Name: "snapshot_ratio", Mark: bench.AtMost(1.25), Runs: ratios, How: fmt.Sprintf(
		"a snapshot of a running instance, from the claim to the job's end, %.0f ms, to the same librbd calls, %.0f ms",
		bench.Median(engine), bench.Median(byHand))}}, i.remove(ctx, name)
}

// snapshot takes a snapshot of an image, and removes it.
func (h *hand) snapshot(image string) (took time.Duration, err error) {
	began := time.Now()
	img, err := rbd.OpenImage(h.io, image, rbd.NoSnapshot)
	if err != nil {
		return 0, err
	}
	if _, err := img.CreateSnapshot("by-hand"); err != nil {
		return 0, errors.Join(err, img.Close())
	}
	if err := img.Close(); err != nil {
		return 0, err
	}
	took = time.Since(began)
	if img, err = rbd.OpenImage(h.io, image, rbd.NoSnapshot); err != nil {
		return 0, err
	}
	return took, errors.Join(img.GetSnapshot("by-hand").Remove(), img.Close())
}

// attach has the engine and the hand give a running instance a volume each. Each turn has an instance of its own, because its guest, which
// is halted, lets no device go.
func attach(ctx context.Context, s setup, i *installation, h *hand) ([]bench.Figure, error) {
	var more, engine, byHand []float64
	for turn := -1; turn < s.runs; turn++ { // the first warms up
		name := fmt.Sprintf("held%d", turn+1)
		if _, err := i.create(ctx, name); err != nil {
			return nil, err
		}
		inst, err := i.db.InstanceByName(ctx, seedbed.InDefault(name))
		if err != nil {
			return nil, err
		}
		if _, err := i.do(ctx, seedbed.Request{Action: seedbed.DoVolumeAdd, Name: name,
			Volume: seedbed.VolumeOrder{Add: seedbed.VolumeRequest{Pool: i.pool, Size: diskSize}}}); err != nil {
			return nil, err
		}
		took, err := i.do(ctx, seedbed.Request{Action: seedbed.DoVolumeAttach, Name: name,
			Volume: seedbed.VolumeOrder{Attach: seedbed.Attachment{Instance: name}}})
		if err != nil {
			return nil, err
		}
		if err := h.clone(base, name, diskSize); err != nil {
			return nil, err
		}
		hand, err := h.attach(inst.ID, name)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(i.remove(ctx, name), h.remove(name)); err != nil {
			return nil, err
		}
		if _, err := i.do(ctx, seedbed.Request{Action: seedbed.DoVolumeRemove, Name: name}); err != nil {
			return nil, err
		}
		if turn < 0 {
			continue
		}
		engine, byHand, more = append(engine, ms(took)), append(byHand, ms(hand)), append(more, ms(took-hand))
	}
	return []bench.Figure{{Name: "attach_overhead_ms", Unit: "ms", Mark: bench.AtMost(250), Runs: more, How: fmt.Sprintf(
		"a volume attached to a running instance, from the claim to the job's end, %.0f ms, less virsh attach-device, %.0f ms",
		bench.Median(engine), bench.Median(byHand))}}, nil
}

var (
	diskOf   = regexp.MustCompile(`(?s)<disk .*?</disk>`)
	sourceOf = regexp.MustCompile(`name='[^'/]*/[^']*'`)
	placeOf  = regexp.MustCompile(`(?s)<(alias|address|backingStore|boot) [^>]*/>|<serial>.*?</serial>`)
)

// attach gives a running domain an image, as it has its last disk.
func (h *hand) attach(id seedbed.InstanceID, image string) (took time.Duration, err error) {
	dom, err := h.virt.LookupDomainByUUIDString(string(id))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dom.Free()) }()
	doc, err := dom.GetXMLDesc(0)
	if err != nil {
		return 0, err
	}
	disks := diskOf.FindAllString(doc, -1)
	if len(disks) == 0 {
		return 0, errors.New("the domain has no disk")
	}
	disk := placeOf.ReplaceAllString(disks[len(disks)-1], "")
	disk = sourceOf.ReplaceAllString(disk, "name='"+h.pool+"/"+image+"'")
	disk = strings.NewReplacer("dev='vdb'", "dev='vdz'", "dev='sdb'", "dev='sdz'").Replace(disk)
	began := time.Now()
	err = dom.AttachDeviceFlags(disk, lv.DOMAIN_DEVICE_MODIFY_LIVE)
	return time.Since(began), err
}
