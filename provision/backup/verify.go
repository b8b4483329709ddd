package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// Verify reads all that the selected backups consist of. A damaged chunk is set aside, so that the next backup that has it writes it again.
// It needs Identity for an encrypted place.
func (p *Place) Verify(ctx context.Context, s Selection, progress func(seedbed.Progress)) (seedbed.BackupCheck, error) {
	if p.seal.sealed() && p.seal.identity == nil {
		return seedbed.BackupCheck{}, seedbed.Errorf(seedbed.ErrInvalid, "backups are encrypted for %s: the secret key is needed to verify them",
			p.seal.recipient)
	}
	keys, err := p.keys(ctx, s)
	if err != nil {
		return seedbed.BackupCheck{}, err
	}
	v := &verification{Place: p, lengths: map[seedbed.Digest]int{}, bad: map[seedbed.Digest]string{}}
	v.check.Backups = len(keys)
	for _, key := range keys {
		if err := v.disks(ctx, key, v.add); err != nil {
			return v.check, err
		}
	}
	if err := v.chunks(ctx, progress); err != nil {
		return v.check, err
	}
	if len(v.bad) > 0 {
		// Which backups have what is damaged is looked up only now, so that it need not be kept of all chunks.
		v.again = true
		for _, key := range keys {
			if err := v.disks(ctx, key, v.name); err != nil {
				return v.check, err
			}
		}
	}
	slices.SortFunc(v.check.Problems, byKey)
	return v.check, nil
}

// verification is one call of Verify.
type verification struct {
	*Place
	check   seedbed.BackupCheck
	lengths map[seedbed.Digest]int // of the chunks; negative if backups do not agree
	again   bool                   // the indexes are read a second time
	bad     map[seedbed.Digest]string
}

func (v *verification) problem(key seedbed.BackupKey, text string) {
	if !v.again {
		v.check.Problems = append(v.check.Problems, seedbed.BackupProblem{BackupKey: key, Problem: text})
	}
}

// disks calls f for each disk of a backup, and notes what cannot be read.
func (v *verification) disks(ctx context.Context, key seedbed.BackupKey, f func(seedbed.BackupDiskKey, *index)) error {
	m, err := v.ReadManifest(ctx, key)
	if wrong(err) {
		v.problem(key, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range m.Disks {
		disk := seedbed.BackupDiskKey{BackupKey: key, Disk: d.Disk}
		x, err := v.index(ctx, disk, d.Index)
		if wrong(err) {
			v.problem(key, err.Error())
			continue
		}
		if err != nil {
			return err
		}
		f(disk, x)
	}
	return nil
}

// wrong reports whether err is about what was read, and not about reading it.
func wrong(err error) bool {
	return errors.Is(err, seedbed.ErrNotFound) || errors.Is(err, seedbed.ErrConflict) || errors.Is(err, seedbed.ErrVersion) || isDamaged(err)
}

func (v *verification) add(_ seedbed.BackupDiskKey, x *index) {
	for i, d := range x.chunks {
		if d != (seedbed.Digest{}) {
			v.lengths[d] = x.length(i)
		}
	}
}

func (v *verification) name(key seedbed.BackupDiskKey, x *index) {
	named := map[seedbed.Digest]bool{}
	for i, d := range x.chunks {
		if text, ok := v.bad[d]; ok && !named[d] {
			named[d] = true
			v.check.Problems = append(v.check.Problems, seedbed.BackupProblem{
				BackupKey: key.BackupKey, Problem: fmt.Sprintf("chunk %d of disk %d: %s", i, key.Disk, text),
			})
		}
	}
}

// chunks reads all chunks.
func (v *verification) chunks(ctx context.Context, progress func(seedbed.Progress)) error {
	all := make([]seedbed.Digest, 0, len(v.lengths))
	m := meter{report: progress}
	for d, length := range v.lengths {
		all = append(all, d)
		m.total += seedbed.Bytes(length)
	}
	v.check.Chunks = len(all)
	var mu sync.Mutex
	var buffers [workers][]byte
	return each(ctx, len(all), func(ctx context.Context, worker, i int) error {
		defer m.add(v.lengths[all[i]])
		plain, stored, err := v.chunk(ctx, all[i], v.lengths[all[i]], buffers[worker])
		if isDamaged(err) {
			if err := v.aside(ctx, all[i]); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		v.check.Read += seedbed.Bytes(stored)
		if wrong(err) {
			v.bad[all[i]] = err.Error()
			return nil
		}
		if err == nil {
			buffers[worker] = plain
		}
		return err
	})
}

// aside gives a damaged chunk another name. It reads it again first: it stays if only reading it has failed, or if it was written again.
// One that the place does not let go stays, too.
func (v *verification) aside(ctx context.Context, d seedbed.Digest) error {
	data, err := v.store.get(ctx, chunkName(d), maxStored)
	if err == nil {
		if _, e := v.codec.decode(d, data, nil); !isDamaged(e) {
			return e
		}
		err = v.store.put(ctx, setAside+d.String(), data)
	}
	if err == nil {
		_, err = v.store.remove(ctx, chunkName(d), time.Time{})
	}
	if wrong(err) || errors.Is(err, seedbed.ErrForbidden) {
		return nil
	}
	return err
}
