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
)

// Join keeps m among the members until ctx ends, and returns nil then. A
// member that dies is removed by the servers after its session timeout.
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
		pause(ctx, retryLeast)
	}
	return nil
}

// join keeps the member's node in one session, until that or ctx ends.
func (c *Client) join(ctx context.Context, s *session, data []byte) error {
	path := c.membersDir() + "/" + uuid.NewString() // in another session another one, since the old may still be there
	for {
		err := s.makeMember(ctx, path, data)
		if errors.Is(err, seedbed.ErrNotFound) {
			if err = s.makeDir(ctx, c.membersDir()); err == nil {
				err = s.makeMember(ctx, path, data)
			}
		}
		wait := s.timeout() / 2 // then made again, should somebody have removed it
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

// makeMember makes the node, as candidate.make does.
func (s *session) makeMember(ctx context.Context, path string, data []byte) error {
	if ctx.Err() != nil {
		return nil
	}
	_, err := ask(context.WithoutCancel(ctx), s, "join the members", func(conn *zookeeper.Conn) (string, error) {
		return conn.Create(path, data, zookeeper.FlagEphemeral, openACL())
	})
	return err
}

// leave removes the member's node; if that cannot be done now the session ends.
func (s *session) leave(ctx context.Context, path string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.timeout(), 2*time.Second))
	defer cancel()
	if err := s.remove(ctx, path); err != nil {
		s.end(err)
	}
}

// Members are those who have joined, by node; of two with the same node the
// one who came last. Without a session it waits for one until ctx ends, and
// gives ErrUnavailable then.
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
		case errors.Is(err, seedbed.ErrNotFound): // left just now
			continue
		case err != nil:
			return nil, err
		}
		// Another release may have more to say, so unknown keys are no error.
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

// record is a member's node as it was read.
type record struct {
	data  []byte
	czxid int64
}

func (c *Client) membersDir() string { return c.cfg.Root + "/members" }
