package backup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"seedbed"
)

// unfinishedFor is how long the indexes of a backup without a manifest are kept, and their chunks with them.
const unfinishedFor = 7 * 24 * time.Hour

// Sweep removes the chunks that no index names and that were not put or renewed within the time of grace, and what is left of backups that
// were never finished. It removes nothing if an index cannot be read, because that may name any chunk: ErrConflict then names it. What the
// place does not let go is counted, and is not an error. progress may be nil; it counts the chunks that were looked at.
func (p *Place) Sweep(ctx context.Context, grace time.Duration, progress func(seedbed.Progress)) (swept seedbed.BackupSwept, err error) {
	now, err := p.store.now(ctx)
	if err != nil {
		return swept, err
	}
	before := now.Add(-grace)
	if err := p.store.tidy(ctx, before); err != nil {
		return swept, err
	}
	live, err := p.live(ctx, now.Add(-max(grace, unfinishedFor)))
	if err != nil {
		return swept, fmt.Errorf("nothing is swept: %w", err)
	}
	done := seedbed.Bytes(0)
	sweep := func(o object) error {
		if done++; progress != nil && done%1000 == 0 {
			progress(seedbed.Progress{Done: done})
		}
		name, ok := parseDigest(path.Base(o.name))
		switch {
		case !ok: // not ours
			return nil
		case live[name] && strings.HasPrefix(o.name, chunksDir):
			swept.Kept++
			return nil
		case o.time.After(before):
			swept.Young++
			return nil
		}
		removed, err := p.store.remove(ctx, o.name, before)
		switch {
		case errors.Is(err, seedbed.ErrForbidden):
			swept.Refused++
			swept.Refusal = err.Error()
			return nil
		case err != nil:
			return err
		case !removed:
			swept.Young++
			return nil
		}
		swept.Removed++
		swept.Freed += seedbed.Bytes(o.size)
		return nil
	}
	for _, prefix := range []string{chunksDir, setAside} {
		if err := p.store.list(ctx, prefix, sweep); err != nil {
			return swept, err
		}
	}
	return swept, nil
}

func parseDigest(name string) (d seedbed.Digest, ok bool) {
	b, err := hex.DecodeString(name)
	if err != nil || len(b) != len(d) {
		return d, false
	}
	return seedbed.Digest(b), true
}

// live returns the names of the chunks that an index names. It removes indexes without a manifest that are older than abandoned.
func (p *Place) live(ctx context.Context, abandoned time.Time) (map[seedbed.Digest]bool, error) {
	finished := map[seedbed.BackupKey]bool{}
	var indexes []object
	err := p.store.list(ctx, backupsDir, func(o object) error {
		key, file := split(o.name)
		switch {
		case "/"+file == manifestFile:
			finished[key] = true
		case strings.HasSuffix(o.name, indexSuffix): // also with a key that this release does not know
			indexes = append(indexes, o)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	live := map[seedbed.Digest]bool{}
	for _, o := range indexes {
		key, _ := split(o.name)
		if key != (seedbed.BackupKey{}) && !finished[key] && o.time.Before(abandoned) {
			// It may have got its manifest in the meantime.
			if _, err := p.stored(ctx, key); errors.Is(err, seedbed.ErrNotFound) {
				removed, err := p.store.remove(ctx, o.name, abandoned)
				if err != nil && !errors.Is(err, seedbed.ErrForbidden) {
					return nil, err
				}
				if removed {
					continue
				}
			}
		}
		x, err := p.indexAt(ctx, o.name, seedbed.Digest{})
		if errors.Is(err, seedbed.ErrNotFound) && !finished[key] {
			continue
		}
		if errors.Is(err, seedbed.ErrNotFound) {
			if _, e := p.stored(ctx, key); errors.Is(e, seedbed.ErrNotFound) { // the backup was removed in the meantime
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("the chunks of a backup are not known: %w: remove that backup, if it cannot be repaired", err)
		}
		for _, d := range x.chunks {
			if d != (seedbed.Digest{}) {
				live[d] = true
			}
		}
	}
	return live, nil
}
