//go:build ceph

package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/internal/sleep"
)

const (
	// taskPoll is the interval at which a task of the managers is polled.
	taskPoll = 500 * time.Millisecond
	// taskTries is how often a task is queued again that ended without doing its work.
	taskTries = 3
)

// FlattenVolume implements worker.Flattener. The managers do the work in their queue of RBD tasks,
// even while a domain uses the volume; this call only waits. The task continues when the call ends,
// and a later call finds it.
func (p *Pool) FlattenVolume(
	ctx context.Context,
	name string,
	id seedbed.InstanceID,
	progress func(seedbed.Progress),
) (seedbed.VolumeInfo, error) {
	if progress == nil {
		progress = func(seedbed.Progress) {}
	}
	what, rbdName := "flatten volume "+name, rbdOf(roleVolume, name)
	var done seedbed.Bytes
	for queued, told := 0, ""; ; {
		type state struct {
			info seedbed.VolumeInfo
			task *task
		}
		now, err := call(ctx, p, what, rbdName, func(ctx context.Context, s *session) (st state, err error) {
			have, err := p.there(ctx, s, name, id)
			if err != nil {
				return st, err
			}
			if have, err = p.flat(s, rbdName, have); err != nil {
				return st, err
			}
			if st.info = p.volume(s, have); !have.Clone() {
				return st, nil
			}
			if st.task, err = p.flattening(s, rbdName); err != nil || st.task != nil {
				return st, err
			}
			if err := p.cfg.Mapper.Free(p.cfg.Name, name); err != nil {
				return st, err
			}
			if queued++; queued > taskTries {
				return st, fmt.Errorf("the managers' task ended %d times without flattening it: look at their log (ceph log last)", taskTries)
			}
			st.task, err = p.queueFlatten(s, rbdName)
			return st, err
		})
		if err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if now.task == nil {
			progress(seedbed.Progress{Done: now.info.Size, Total: now.info.Size})
			return now.info, nil
		}
		if now.task.Retry != told {
			told = now.task.Retry
			p.log.Warn("a manager retries to flatten a volume", "pool", p.cfg.Name, "volume", name, "err", told)
		}
		done = max(done, seedbed.Bytes(now.task.Progress*float64(now.info.Size)))
		progress(seedbed.Progress{Done: done, Total: now.info.Size})
		if !sleep.For(ctx, taskPoll) {
			return seedbed.VolumeInfo{}, fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}

// flat records in the tag of a clone without a parent that it is no longer a clone.
func (p *Pool) flat(s *session, rbdName string, t *tag) (*tag, error) {
	if !t.Clone() {
		return t, nil
	}
	img, err := rbd.OpenImageReadOnly(s.io, rbdName, rbd.NoSnapshot)
	if err != nil {
		return nil, err
	}
	_, err = img.GetParent()
	if err := errors.Join(ignore(err, enoent), s.closeImage(img)); err != nil {
		return nil, err
	}
	if !is(err, enoent) {
		return t, nil
	}
	t.Flat = true
	return t, s.setTag(rbdName, *t)
}

// flattening returns the managers' task for the RBD image, or nil.
func (p *Pool) flattening(s *session, rbdName string) (*task, error) {
	answer, err := s.ask(map[string]string{"prefix": "rbd task list", "format": "json"})
	if err != nil {
		return nil, err
	}
	return findTask(answer, p.cfg.Pool, rbdName)
}

// managers checks that a manager accepts tasks from this user.
func (p *Pool) managers(ctx context.Context) seedbed.Check {
	check := seedbed.Check{Name: "pool " + p.cfg.Name + " managers", OK: true, Detail: "they take tasks (rbd task list)"}
	err := p.do(ctx, "ask the managers for their tasks", "", func(_ context.Context, s *session) error {
		_, err := p.flattening(s, "")
		return err
	})
	if err != nil {
		check.OK, check.Detail = false, err.Error()
		check.Hint = "start a ceph-mgr: without one volumes cannot be flattened"
		if errors.Is(err, seedbed.ErrForbidden) {
			check.Hint = p.hint(err)
		}
	}
	return check
}

// queueFlatten queues the task, unless it is already queued.
func (p *Pool) queueFlatten(s *session, rbdName string) (*task, error) {
	answer, err := s.ask(map[string]string{"prefix": "rbd task add flatten", "image_spec": p.cfg.Pool + "/" + rbdName, "format": "json"})
	if is(err, enoent) { // it has just finished
		return new(task), nil
	}
	if err != nil {
		return nil, err
	}
	t := new(task)
	if err := json.Unmarshal(answer, t); err != nil {
		return nil, fmt.Errorf("answer of the managers' rbd task add: %w", err)
	}
	return t, nil
}

// ask sends a command to the managers.
func (s *session) ask(command map[string]string) ([]byte, error) {
	b, err := json.Marshal(command)
	if err != nil {
		return nil, err
	}
	answer, status, err := s.conn.MgrCommand([][]byte{b})
	if is(err, syscall.EAGAIN) {
		return nil, seedbed.Errorf(seedbed.ErrUnavailable, "the managers' module rbd_support is not ready yet (%s)", status)
	}
	return answer, err
}

// StopFlatten implements worker.Flattener: it removes the task from the managers' queue.
func (p *Pool) StopFlatten(ctx context.Context, name string, id seedbed.InstanceID) error {
	if err := seedbed.CheckName("volume", name); err != nil {
		return err
	}
	what, rbdName := "stop the flatten of volume "+name, rbdOf(roleVolume, name)
	for {
		goes, err := call(ctx, p, what, rbdName, func(ctx context.Context, s *session) (bool, error) {
			have, err := p.own(ctx, s, name, id)
			if have == nil || err != nil {
				return false, err
			}
			t, err := p.flattening(s, rbdName)
			if t == nil || err != nil {
				return false, err
			}
			_, err = s.ask(map[string]string{"prefix": "rbd task cancel", "task_id": t.ID, "format": "json"})
			return true, ignore(err, enoent)
		})
		if err != nil || !goes {
			return err
		}
		if !sleep.For(ctx, taskPoll) { // it is listed until the manager has closed the image
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}
