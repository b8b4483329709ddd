//go:build ceph

package ceph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/command"
	"seedbed/provision/image"
)

// readers is how many tags are read concurrently: each takes two round trips.
const readers = 8

// Volumes implements worker.Lister.
func (p *Pool) Volumes(ctx context.Context) ([]seedbed.VolumeInfo, error) {
	return call(ctx, p, "list volumes", "", func(ctx context.Context, s *session) ([]seedbed.VolumeInfo, error) {
		tags, err := p.tags(ctx, s, roleVolume)
		all := make([]seedbed.VolumeInfo, len(tags))
		for i, t := range tags {
			all[i] = p.volume(s, t)
		}
		return all, err
	})
}

// Images implements worker.Lister. An image is listed until its removal has ended.
func (p *Pool) Images(ctx context.Context) ([]seedbed.ImageInfo, error) {
	return call(ctx, p, "list images", "", func(ctx context.Context, s *session) ([]seedbed.ImageInfo, error) {
		tags, err := p.tags(ctx, s, roleImage)
		all := make([]seedbed.ImageInfo, len(tags))
		for i, t := range tags {
			all[i] = t.ImageInfo(p.cfg.Name)
		}
		return all, err
	})
}

// tags returns the tags of all finished RBD images of a role, ordered by name.
func (p *Pool) tags(ctx context.Context, s *session, r role) ([]*tag, error) {
	names, err := rbd.GetImageNames(s.io)
	if err != nil {
		return nil, err
	}
	var ours []string
	for _, n := range names {
		if is, _, ok := split(n); ok && is == r {
			ours = append(ours, n)
		}
	}
	tags, errs, next := make([]*tag, len(ours)), make([]error, len(ours)), make(chan int)
	var wg sync.WaitGroup
	for range min(readers, len(ours)) {
		wg.Go(func() {
			for i := range next {
				tags[i], _, errs[i] = s.readTag(ours[i])
			}
		})
	}
	for i := range ours {
		if err = ctx.Err(); err != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	var all []*tag
	for i, t := range tags {
		if errs[i] != nil {
			return nil, fmt.Errorf("read the tag of %s: %w", ours[i], errs[i])
		}
		if isTagOf(t, ours[i]) && t.State != stateBuilding {
			all = append(all, t)
		}
	}
	return all, nil
}

// Info implements worker.Lister. Free is what can still be written according to the monitors
// (max_avail), after replication; 0 while the pool is marked as full.
func (p *Pool) Info(ctx context.Context) (seedbed.PoolInfo, error) {
	info := seedbed.PoolInfo{Name: p.cfg.Name, Type: Type, Shared: true}
	err := p.do(ctx, "ask for the room", "", func(_ context.Context, s *session) error {
		size, free, err := p.room(s)
		if err == nil {
			info.Size, info.Free = size, free
		}
		return err
	})
	return info, err
}

func (p *Pool) room(s *session) (size, free seedbed.Bytes, err error) {
	answer, _, err := s.conn.MonCommand([]byte(`{"prefix":"df","detail":"detail","format":"json"}`))
	if err != nil {
		return 0, 0, err
	}
	size, free, known, err := parseRoom(answer, p.cfg.Pool)
	if err == nil && !known {
		err = seedbed.Errorf(seedbed.ErrUnavailable,
			"the managers have not reported the room in Ceph pool %s yet: is a ceph-mgr running? (ceph -s)", p.cfg.Pool)
	}
	if err != nil || free == 0 {
		return size, free, err
	}
	full, err := p.full(s)
	if full {
		free = 0
	}
	return size, free, err
}

// full reports whether the pool is marked as full. If it is not, then no OSD takes it for full any
// more: an OSD that gets a request does not answer before it knows the same map as we do.
func (p *Pool) full(s *session) (bool, error) {
	answer, _, err := s.conn.MonCommand([]byte(`{"prefix":"osd pool ls","detail":"detail","format":"json"}`))
	if err != nil {
		return false, err
	}
	full, err := parseFull(answer, p.cfg.Pool)
	if full || err != nil {
		return full, err
	}
	return false, s.conn.WaitForLatestOSDMap()
}

// roomFor is how long a pool's free space counts as known for operations that take no space at
// once, such as a clone. The managers do not report it more often.
const roomFor = time.Second

// need returns ErrFull if the operation would leave less than the reserve. In a full pool writes
// hang instead of failing.
func (p *Pool) need(s *session, bytes seedbed.Bytes) error {
	if bytes == 0 && p.roomy() {
		return nil
	}
	_, free, err := p.room(s)
	if err != nil {
		return err
	}
	if free-bytes < p.cfg.Reserve {
		return seedbed.Errorf(seedbed.ErrFull, "%s is needed in Ceph pool %s, which has %s free and keeps a reserve of %s",
			bytes.Human(), p.cfg.Pool, free.Human(), p.cfg.Reserve.Human())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sawRoom = time.Now()
	return nil
}

// roomy reports whether the reserve was free a moment ago.
func (p *Pool) roomy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.sawRoom) < roomFor
}

// Health implements worker.Checker. It checks whether the cluster answers, the free space of the
// pool, the tool that imports need, and the managers, which flatten volumes.
func (p *Pool) Health(ctx context.Context) []seedbed.Check {
	room := seedbed.Check{Name: "pool " + p.cfg.Name}
	info, err := call(ctx, p, "ask for the room", "", func(_ context.Context, s *session) (seedbed.PoolInfo, error) {
		monitors, err := s.askMonitors()
		if err != nil {
			return seedbed.PoolInfo{}, err
		}
		p.link.setMonitors(s, monitors)
		size, free, err := p.room(s)
		return seedbed.PoolInfo{Size: size, Free: free}, err
	})
	switch {
	case err != nil:
		room.Detail, room.Hint = err.Error(), p.hint(err)
	case info.Free < p.cfg.Reserve:
		room.Detail = fmt.Sprintf("%s free of %s in Ceph pool %s", info.Free.Human(), info.Size.Human(), p.cfg.Pool)
		room.Hint = fmt.Sprintf("remove volumes or images, or add OSDs: nothing new is made below the reserve of %s", p.cfg.Reserve.Human())
	default:
		room.OK, room.Detail = true, fmt.Sprintf("%s free of %s in Ceph pool %s", info.Free.Human(), info.Size.Human(), p.cfg.Pool)
	}
	if n := p.gate.Stuck(); n > 0 {
		room.Detail += fmt.Sprintf("; %d calls have not come back", n)
		if room.OK { // otherwise the reason is known
			room.OK, room.Hint = false, "look at the cluster's health (ceph -s), or restart seedbed-worker"
		}
	}
	tool := seedbed.Check{Name: image.Tool + " with rbd", OK: true, Detail: "installed"}
	if err := cmp.Or(command.Installed(image.Tool), command.Installed(image.Server)); err != nil {
		tool.OK, tool.Detail, tool.Hint = false, err.Error(), "install the Debian packages qemu-utils, qemu-system-common and qemu-block-extra"
	}
	if !room.OK {
		return []seedbed.Check{room, tool} // the managers would not answer either
	}
	return []seedbed.Check{room, tool, p.managers(ctx)}
}

// hint returns what to do about a pool that does not answer.
func (p *Pool) hint(err error) string {
	if errors.Is(err, seedbed.ErrForbidden) {
		return fmt.Sprintf(
			"give the user its caps: ceph auth caps client.%s mon 'profile rbd' osd 'profile rbd pool=%s' mgr 'profile rbd pool=%s'", p.cfg.User,
			p.cfg.Pool, p.cfg.Pool)
	}
	return fmt.Sprintf("try it as the worker does: ceph -c %s --id %s --keyring %s -s; then start the monitors and OSDs that are down",
		p.cfg.ConfFile, p.cfg.User, p.cfg.Keyring)
}
