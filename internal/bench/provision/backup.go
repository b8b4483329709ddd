//go:build ceph && libvirt

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/bench"
	"seedbed/internal/lab"
	"seedbed/provision/effects"
)

const (
	// roomy is a profile with a disk of roomySize.
	roomy     = "roomy"
	roomySize = 10 * seedbed.GiB
	// object is the size of an object of an RBD image.
	object = int(4 * seedbed.MiB)
	// filled is how many objects of the disk have data, and changed how many of them get other data before each backup.
	filled, changed = 256, 25
	target          = "bench"
)

// backups has the engine and rbd back up the same volume to the same directory in turn, each by what has changed since its own last backup,
// and then make a volume again of that.
func backups(ctx context.Context, s setup, i *installation, h *hand) ([]bench.Figure, error) {
	b := &backupBench{installation: i, hand: h, data: rand.NewChaCha8([32]byte{2})}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	var saved, restored contest
	for turn := -1; turn < s.backups; turn++ { // the first warms up
		if err := b.change(); err != nil {
			return nil, err
		}
		if err := saved.turn(turn, func() (took, error) { return b.backUp(ctx) }, func() (took, error) { return b.export(ctx) }); err != nil {
			return nil, err
		}
	}
	full := filepath.Join(b.dir, "full.diff")
	if err := b.rbd(ctx, "export-diff", "--no-progress", b.at(b.image)+"@"+b.last, full); err != nil {
		return nil, err
	}
	for turn := -1; turn < s.backups; turn++ {
		if err := restored.turn(turn, func() (took, error) { return b.restore(ctx) }, func() (took, error) {
			return b.importDiff(ctx, full)
		}); err != nil {
			return nil, err
		}
	}
	return []bench.Figure{
		{Name: "backup_ratio", Mark: bench.AtMost(1.2), Runs: saved.ratios, How: fmt.Sprintf(
			"a backup of a 10 GiB volume with 1 GiB of data, of which 100 MiB have changed, from the claim to the job's end, %s, "+
				"to rbd snap create, export-diff to the same directory and snap rm, %s", saved.engine, saved.byHand)},
		{Name: "restore_ratio", Mark: bench.AtMost(1.2), Runs: restored.ratios, How: fmt.Sprintf(
			"an instance made of that backup and left off, from the claim to the job's end, %s, to rbd create and import-diff of the same, %s",
			restored.engine, restored.byHand)},
	}, b.clear(ctx)
}

// took is how long something took, and its parts.
type took struct {
	all   time.Duration
	parts []part
}

type part struct {
	name string
	time time.Duration
}

func (t *took) add(name string, d time.Duration) {
	t.parts = append(t.parts, part{name, d})
	t.all += d
}

// side is what one side took in all turns.
type side []took

// String is the medians, in ms.
func (s side) String() string {
	of := func(f func(took) time.Duration) float64 {
		var all []float64
		for _, t := range s {
			all = append(all, ms(f(t)))
		}
		return bench.Median(all)
	}
	text := fmt.Sprintf("%.0f ms", of(func(t took) time.Duration { return t.all }))
	var parts []string
	for n, p := range s[0].parts {
		parts = append(parts, fmt.Sprintf("%s %.0f", p.name, of(func(t took) time.Duration { return t.parts[n].time })))
	}
	return text + " (" + strings.Join(parts, ", ") + ")"
}

// contest is two sides that take turns.
type contest struct {
	engine, byHand side
	ratios         []float64
}

// turn has each side run once; the first is another one in each turn. A negative turn warms up.
func (c *contest) turn(turn int, engine, byHand func() (took, error)) (err error) {
	var ours, theirs took
	steps := []func() error{
		func() (err error) { ours, err = engine(); return err },
		func() (err error) { theirs, err = byHand(); return err },
	}
	if turn%2 == 0 {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if turn >= 0 {
		c.engine, c.byHand = append(c.engine, ours), append(c.byHand, theirs)
		c.ratios = append(c.ratios, ours.all.Seconds()/theirs.all.Seconds())
	}
	return nil
}

// backupBench is a volume with backups.
type backupBench struct {
	*installation
	*hand
	image string // of the volume
	inst  seedbed.Instance
	data  *rand.ChaCha8
	last  string // snapshot that the hand has of the image
	turns int
}

func (b *backupBench) at(image string) string { return b.hand.pool + "/" + image }

// rbd runs rbd(8).
func (b *backupBench) rbd(ctx context.Context, args ...string) error {
	args = append([]string{"-c", b.conf.Conf, "--id", lab.CephUser, "--keyring", b.conf.Keyring}, args...)
	if out, err := exec.CommandContext(ctx, "rbd", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("rbd %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// timed is how long rbd(8) took.
func (b *backupBench) timed(ctx context.Context, t *took, args ...string) error {
	began := time.Now()
	err := b.rbd(ctx, args...)
	t.add("rbd "+args[0], time.Since(began))
	return err
}

// prepare makes the instance, gives its disk data, and backs it up on both sides.
func (b *backupBench) prepare(ctx context.Context) error {
	place := filepath.Join(b.dir, "backups")
	err := os.Mkdir(place, 0o700)
	if err != nil {
		return err
	}
	t := seedbed.BackupTarget{Name: target, BackupSettings: seedbed.BackupSettings{Path: place}}
	if _, err := effects.CheckBackupPlace.Ask(ctx, b.client, t.Place()); err != nil {
		return err
	}
	if _, err := b.db.CreateBackupTarget(ctx, t); err != nil {
		return err
	}
	if _, err := b.do(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "kept", Profile: roomy}); err != nil {
		return err
	}
	if b.inst, err = b.db.InstanceByName(ctx, seedbed.InDefault("kept")); err != nil {
		return err
	}
	b.image = volumePrefix + b.inst.Volumes[0].Name
	if err := b.write(0, filled); err != nil {
		return err
	}
	if _, err := b.backUp(ctx); err != nil {
		return err
	}
	b.last = "by-hand-0"
	return b.rbd(ctx, "snap", "create", "--no-progress", b.at(b.image)+"@"+b.last)
}

// write gives objects of the disk data, half of which can be compressed.
func (b *backupBench) write(from, count int) error {
	img, err := rbd.OpenImage(b.io, b.image, rbd.NoSnapshot)
	if err != nil {
		return err
	}
	block := make([]byte, object)
	for n := from; n < from+count && err == nil; n++ {
		if _, err = io.ReadFull(b.data, block); err != nil {
			break
		}
		for at := 0; at < object; at += 4096 {
			for n := at + 2048; n < at+4096; n += 8 {
				binary.LittleEndian.PutUint64(block[n:], uint64(at))
			}
		}
		_, err = img.WriteAt(block, int64(n*object))
	}
	return errors.Join(err, img.Flush(), img.Close())
}

// change gives some of the objects other data.
func (b *backupBench) change() error {
	b.turns++
	return b.write(b.turns*changed%(filled-changed), changed)
}

// backUp has the engine make a backup.
func (b *backupBench) backUp(ctx context.Context) (t took, err error) {
	asked := seedbed.Request{Action: seedbed.DoBackup, Name: "kept", Params: map[string]any{"target": target}}
	receipt, err := b.intake.Submit(ctx, asked, nil)
	if err != nil {
		return t, err
	}
	return b.staged(ctx, receipt.Job)
}

// staged waits for a job, and is how long its stages took.
func (b *backupBench) staged(ctx context.Context, id seedbed.JobID) (t took, err error) {
	job, err := b.await(ctx, id)
	if err != nil {
		return t, err
	}
	events, err := b.db.Events(ctx, id, 0, 1000)
	if err != nil {
		return t, err
	}
	last := job.Started
	for n, e := range events {
		if n+1 == len(events) || events[n+1].Stage != e.Stage {
			if e.Stage != "" && e.At.After(last) {
				t.add(e.Stage, e.At.Sub(last))
				last = e.At
			}
		}
	}
	t.all = job.Ended.Sub(job.Started)
	return t, nil
}

// export is the same by hand.
func (b *backupBench) export(ctx context.Context) (t took, err error) {
	next, file := fmt.Sprintf("by-hand-%d", b.turns), filepath.Join(b.dir, "backups", fmt.Sprintf("hand-%d.diff", b.turns))
	if err := b.timed(ctx, &t, "snap", "create", "--no-progress", b.at(b.image)+"@"+next); err != nil {
		return t, err
	}
	if err := b.timed(ctx, &t, "export-diff", "--no-progress", "--from-snap", b.last, b.at(b.image)+"@"+next, file); err != nil {
		return t, err
	}
	if err := b.timed(ctx, &t, "snap", "rm", "--no-progress", b.at(b.image)+"@"+b.last); err != nil {
		return t, err
	}
	b.last = next
	return t, os.Remove(file)
}

// restore has the engine make an instance of the last backup.
func (b *backupBench) restore(ctx context.Context) (t took, err error) {
	list, err := effects.ListBackups.Ask(ctx, b.client, effects.BackupSelection{Place: b.place(), Instance: b.inst.ID})
	if err != nil {
		return t, err
	}
	of := seedbed.BackupRestore{Target: target, Backup: list.Backups[len(list.Backups)-1].BackupKey}
	receipt, err := b.intake.RestoreBackup(ctx, seedbed.DefaultProject, of, seedbed.BackupRestoreRequest{Name: "again", Off: true},
		seedbed.JobOptions{})
	if err != nil {
		return t, err
	}
	if t, err = b.staged(ctx, receipt.Job); err != nil {
		return t, err
	}
	return t, b.installation.remove(ctx, "again")
}

// importDiff is the same by hand.
func (b *backupBench) importDiff(ctx context.Context, file string) (t took, err error) {
	const name = "by-hand"
	if err := b.timed(ctx, &t, "create", "--size", fmt.Sprintf("%dM", roomySize/seedbed.MiB), b.at(name)); err != nil {
		return t, err
	}
	if err := b.timed(ctx, &t, "import-diff", "--no-progress", file, b.at(name)); err != nil {
		return t, err
	}
	if err := b.rbd(ctx, "snap", "purge", "--no-progress", b.at(name)); err != nil {
		return t, err
	}
	return t, b.hand.remove(name)
}

func (b *backupBench) place() seedbed.BackupPlace {
	return seedbed.BackupTarget{Name: target, BackupSettings: seedbed.BackupSettings{Path: filepath.Join(b.dir, "backups")}}.Place()
}

func (b *backupBench) clear(ctx context.Context) error {
	if err := b.rbd(ctx, "snap", "rm", "--no-progress", b.at(b.image)+"@"+b.last); err != nil {
		return err
	}
	return b.installation.remove(ctx, "kept")
}
