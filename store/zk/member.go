package zk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	zookeeper "github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"seedbed"
	"seedbed/internal/sleep"
)

// Join keeps m among the members until ctx ends, and then returns nil. If a member dies, the
// servers remove it after its session timeout.
func (c *Client) Join(ctx context.Context, m seedbed.Member) error {
	if err := seedbed.CheckName("node", m.Node); err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("member %s: %w", m.Node, err)
	}
	for ctx.Err() == nil {
		s, err := c.session(ctx)
		if err != nil {
			return nil // ctx has ended
		}
		if s.hold(&s.users) {
			if err = c.join(ctx, s, data); err != nil {
				c.cfg.Log.Warn("cannot join the members", "err", err)
				s.pause(ctx, retryMost)
			}
			s.users.Done()
		}
		sleep.For(ctx, retryLeast)
	}
	return nil
}

// join keeps the member's znode in one session, until the session or ctx ends.
func (c *Client) join(ctx context.Context, s *session, data []byte) error {
	path := c.membersDir() + "/" + uuid.NewString() // new for each session, because the old znode may still exist
	for {
		err := s.makeMember(ctx, path, data)
		if errors.Is(err, seedbed.ErrNotFound) {
			if err = s.makeDir(ctx, c.membersDir()); err == nil {
				err = s.makeMember(ctx, path, data)
			}
		}
		wait := s.timeout() / 2 // then create it again, in case it was removed
		switch {
		case err == nil || errors.Is(err, seedbed.ErrExists):
		case errors.Is(err, seedbed.ErrUnavailable) || errors.Is(err, seedbed.ErrNotFound):
			wait = retryLeast
		default:
			return err
		}
		if s.pause(ctx, wait) {
			continue
		}
		if s.why() == nil {
			s.leave(ctx, path)
		}
		return nil
	}
}

// makeMember creates the znode, with the same guarantees as candidate.make.
func (s *session) makeMember(ctx context.Context, path string, data []byte) error {
	if ctx.Err() != nil {
		return nil
	}
	_, err := ask(context.WithoutCancel(ctx), s, "join the members", func(conn *zookeeper.Conn) (string, error) {
		return conn.Create(path, data, zookeeper.FlagEphemeral, openACL())
	})
	return err
}

// leave removes the member's znode. If that fails, it ends the session.
func (s *session) leave(ctx context.Context, path string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.timeout(), 2*time.Second))
	defer cancel()
	if err := s.remove(ctx, path); err != nil {
		s.end(err)
	}
}

// Members returns the members sorted by node. Of two members with the same node it returns the one
// that joined last. Without a session it waits for one until ctx ends, and then returns
// ErrUnavailable.
func (c *Client) Members(ctx context.Context) ([]seedbed.Member, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	names, err := ask(ctx, s, "list the members", func(conn *zookeeper.Conn) ([]string, error) {
		names, _, err := conn.Children(c.membersDir())
		return names, err
	})
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) {
		return nil, err
	}
	latest := map[string]seedbed.Member{}
	newest := map[string]int64{} // czxid by node
	for _, name := range names {
		rec, err := ask(ctx, s, "read a member", func(conn *zookeeper.Conn) (record, error) {
			data, st, err := conn.Get(c.membersDir() + "/" + name)
			if err != nil {
				return record{}, err
			}
			return record{data, st.Czxid}, nil
		})
		switch {
		case errors.Is(err, seedbed.ErrNotFound): // it has just left
			continue
		case err != nil:
			return nil, err
		}
		// Another release may write more fields, so unknown keys are not an error.
		var m seedbed.Member
		if err := json.Unmarshal(rec.data, &m); err != nil || seedbed.CheckName("node", m.Node) != nil {
			c.cfg.Log.Warn("a member's record cannot be read", "znode", name, "err", err)
			continue
		}
		if rec.czxid > newest[m.Node] {
			latest[m.Node], newest[m.Node] = m, rec.czxid
		}
	}
	members := slices.AppendSeq([]seedbed.Member{}, maps.Values(latest))
	slices.SortFunc(members, func(a, b seedbed.Member) int { return cmp.Compare(a.Node, b.Node) })
	return members, nil
}

// record is a member's znode as read from ZooKeeper.
type record struct {
	data  []byte
	czxid int64
}

func (c *Client) membersDir() string { return c.cfg.Root + "/members" }
