package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"seedbed"
)

// trashID returns a unique short name for a file in the trash.
func trashID() string { return strings.ToLower(rand.Text()[:12]) }

// TrashVolume implements worker.Trash. The tag is moved first and the file follows: a crash leaves
// at most a tag without a file.
func (p *Pool) TrashVolume(ctx context.Context, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error) {
	if p.keep == 0 {
		return nil, p.RemoveVolume(ctx, name, id)
	}
	if err := seedbed.CheckName("volume", name); err != nil {
		return nil, err
	}
	if err := p.enter(ctx); err != nil {
		return nil, fmt.Errorf("move volume %s into the trash: %w", name, err)
	}
	defer p.leave()
	have, err := p.free(name, id)
	if have == nil || err != nil {
		return nil, err
	}
	t := have.Trashed(trashID(), p.keep)
	if err := p.move(volumes, name, trash, t.Trash.ID, t); err != nil {
		return nil, fmt.Errorf("move volume %s into the trash: %w", name, p.room(err))
	}
	item := t.TrashItem(p.name, t.Trash.ID)
	return &item, nil
}

// move gives a file of ours another path and tag. The caller must have the pool's turn.
func (p *Pool) move(fromKind, from, toKind, to string, t tag) error {
	src, dst := p.file(fromKind, from), p.file(toKind, to)
	if err := p.writeTag(dst+tagSuffix, t); err != nil {
		return err
	}
	// Unlike a rename, a link never replaces another file.
	if err := os.Link(src, dst); err != nil {
		_ = os.Remove(dst + tagSuffix)
		return err
	}
	if err := syncPath(filepath.Dir(dst)); err != nil {
		return err
	}
	return p.withdraw(fromKind, from)
}

// Trash implements worker.Trash.
func (p *Pool) Trash(ctx context.Context) ([]seedbed.TrashItem, error) {
	tags, err := p.list(ctx, trash)
	if err != nil {
		return nil, err
	}
	var all []seedbed.TrashItem
	for _, t := range tags {
		all = append(all, t.TrashItem(p.name, t.Trash.ID))
	}
	return all, nil
}

// RestoreVolume implements worker.Trash.
func (p *Pool) RestoreVolume(ctx context.Context, id string) (seedbed.VolumeInfo, error) {
	if err := seedbed.CheckName("trash item", id); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if err := p.enter(ctx); err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("restore %s from the trash: %w", id, err)
	}
	defer p.leave()
	t, err := p.look(trash, id)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if t == nil {
		return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash of pool %s", id, p.name)
	}
	_, err = os.Lstat(p.file(volumes, t.Name))
	if err == nil {
		return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrExists,
			"volume %s exists in pool %s again: remove it before the one in the trash can be restored", t.Name, p.name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = p.move(trash, id, volumes, t.Name, *t)
	}
	if err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("restore %s from the trash: %w", id, p.room(err))
	}
	return p.volume(t), nil
}

// PurgeVolume implements worker.Trash.
func (p *Pool) PurgeVolume(ctx context.Context, id string, early bool) error {
	if err := seedbed.CheckName("trash item", id); err != nil {
		return err
	}
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("purge %s from the trash: %w", id, err)
	}
	defer p.leave()
	t, err := p.look(trash, id)
	if t == nil || err != nil {
		return err
	}
	if !early {
		if err := t.CheckExpired(p.name, id); err != nil {
			return err
		}
	}
	if err := p.withdraw(trash, id); err != nil {
		return fmt.Errorf("purge %s from the trash: %w", id, err)
	}
	return nil
}

// sweepMoves ends moves to and from the trash that a crash interrupted. The file then has both
// names and loses the one in the trash: the job of a removal asks for it again.
func (p *Pool) sweepMoves() error {
	tags, err := p.tags(trash)
	if err != nil {
		p.log.Warn("trash not swept", "pool", p.name, "err", err)
		return nil
	}
	for _, t := range tags {
		if have, err := p.look(volumes, t.Name); have == nil || err != nil || have.Instance != t.Instance {
			continue
		}
		here, err := os.Lstat(p.file(volumes, t.Name))
		if err != nil {
			return err
		}
		there, err := os.Lstat(p.file(trash, t.Trash.ID))
		if err != nil {
			return err
		}
		if !os.SameFile(here, there) {
			continue
		}
		p.log.Info("ended unfinished move of the trash", "pool", p.name, "volume", t.Name, "id", t.Trash.ID)
		if err := p.withdraw(trash, t.Trash.ID); err != nil {
			return err
		}
	}
	return nil
}
