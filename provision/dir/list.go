package dir

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/command"
	"seedbed/provision/image"
)

// Volumes implements worker.Lister.
func (p *Pool) Volumes(ctx context.Context) ([]seedbed.VolumeInfo, error) {
	tags, err := p.list(ctx, volumes)
	if err != nil {
		return nil, err
	}
	all := make([]seedbed.VolumeInfo, len(tags))
	for i, t := range tags {
		all[i] = p.volume(t)
	}
	return all, nil
}

// Images implements worker.Lister.
func (p *Pool) Images(ctx context.Context) ([]seedbed.ImageInfo, error) {
	tags, err := p.list(ctx, images)
	if err != nil {
		return nil, err
	}
	all := make([]seedbed.ImageInfo, len(tags))
	for i, t := range tags {
		all[i] = t.ImageInfo(p.name)
	}
	return all, nil
}

func (p *Pool) list(ctx context.Context, kind string) ([]*tag, error) {
	err := p.enter(ctx)
	if err == nil {
		defer p.leave()
		var all []*tag
		if all, err = p.tags(kind); err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("list %s of pool %s: %w", kind, p.name, err)
}

// Info implements worker.Lister.
func (p *Pool) Info(ctx context.Context) (seedbed.PoolInfo, error) {
	info := seedbed.PoolInfo{Name: p.name, Type: Type, Shared: p.shared}
	if err := ctx.Err(); err != nil {
		return info, err
	}
	err := p.ready(ctx)
	if err == nil {
		info.Size, info.Free, err = p.space()
	}
	return info, err
}

// Health implements worker.Checker: the free space of the pool, and the tool that it needs.
func (p *Pool) Health(ctx context.Context) []seedbed.Check {
	room := seedbed.Check{Name: "pool " + p.name, OK: true}
	away := p.ready(ctx)
	size, free, err := p.space()
	switch {
	case away != nil:
		room.OK, room.Detail, room.Hint = false, away.Error(), "mount the file system of "+p.path
	case err != nil:
		room.OK, room.Detail, room.Hint = false, err.Error(), "make "+p.path+" a directory that root can write to"
	default:
		room.Detail = fmt.Sprintf("%s free of %s at %s", free.Human(), size.Human(), p.path)
		if free < p.reserve {
			room.OK, room.Hint = false, fmt.Sprintf("remove volumes or images: nothing new is made below the reserve of %s", p.reserve.Human())
		}
	}
	tool := seedbed.Check{Name: image.Tool, OK: true, Detail: "installed"}
	if err := command.Installed(image.Tool); err != nil {
		tool.OK, tool.Detail, tool.Hint = false, err.Error(), "install the Debian package qemu-utils"
	}
	return []seedbed.Check{room, tool}
}

func (p *Pool) space() (size, free seedbed.Bytes, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(p.path, &st); err != nil {
		return 0, 0, fmt.Errorf("room in pool %s at %s: %w", p.name, p.path, err)
	}
	unit := seedbed.Bytes(st.Frsize)
	return seedbed.Bytes(st.Blocks) * unit, seedbed.Bytes(st.Bavail) * unit, nil
}

// need returns ErrFull if the operation would leave less than the reserve, and ErrUnavailable if the
// pool is away.
func (p *Pool) need(bytes seedbed.Bytes) error {
	if err := p.here(); err != nil {
		return err
	}
	_, free, err := p.space()
	if err != nil {
		return err
	}
	if free-bytes < p.reserve {
		return seedbed.Errorf(seedbed.ErrFull, "%s is needed in pool %s at %s, which has %s free and keeps a reserve of %s",
			bytes.Human(), p.name, p.path, free.Human(), p.reserve.Human())
	}
	return nil
}
