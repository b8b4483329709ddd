package zk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	zookeeper "github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"seedbed"
)

// candidate takes part in one election with a znode of its own.
type candidate struct {
	s   *session
	dir string // the role's znode
	id  string // identifies the candidate's znodes

	path  string // of the candidate's znode
	token int64  // its czxid
}

func newCandidate(s *session, dir string) *candidate {
	return &candidate{s: s, dir: dir, id: uuid.NewString()}
}

// elect returns nil when the candidate's znode is the lowest. If the connection is lost, it keeps
// trying for as long as the session lasts.
func (c *candidate) elect(ctx context.Context) error {
	for {
		first, ahead, err := c.look(ctx)
		if err == nil && first {
			return nil
		}
		if err == nil {
			err = c.await(ctx, ahead)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case c.s.why() != nil:
			return c.s.why()
		case err == nil || errors.Is(err, seedbed.ErrNotFound): // the candidate ahead is gone
		case errors.Is(err, seedbed.ErrUnavailable):
			c.s.pause(ctx, retryLeast)
		default:
			return err
		}
	}
}

// look creates the candidate's znode if there is none. It reports whether it is the lowest, and
// otherwise returns the one right before it.
func (c *candidate) look(ctx context.Context) (first bool, ahead string, err error) {
	nodes, err := c.nodes(ctx)
	if errors.Is(err, seedbed.ErrNotFound) {
		if err = c.s.makeDir(ctx, c.dir); err == nil {
			nodes, err = c.nodes(ctx)
		}
	}
	if err != nil {
		return false, "", err
	}
	mine := slices.IndexFunc(nodes, c.owns)
	if mine < 0 {
		if err := c.make(ctx); err != nil {
			return false, "", err
		}
		if nodes, err = c.nodes(ctx); err != nil {
			return false, "", err
		}
		if mine = slices.IndexFunc(nodes, c.owns); mine < 0 {
			return false, "", seedbed.Errorf(seedbed.ErrUnavailable, "zookeeper: the node of the candidate was removed")
		}
	}
	c.path = c.dir + "/" + nodes[mine]
	if mine > 0 {
		return false, c.dir + "/" + nodes[mine-1], nil
	}
	st, err := ask(ctx, c.s, "look at the node", func(conn *zookeeper.Conn) (*zookeeper.Stat, error) {
		_, st, err := conn.Get(c.path)
		return st, err
	})
	if err != nil {
		return false, "", err
	}
	c.token = st.Czxid
	return true, "", nil
}

// make creates the candidate's znode, unless ctx has ended. The request must not take effect later,
// so make does not stop waiting when ctx ends. If there is no answer, the session ends.
func (c *candidate) make(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := ask(context.WithoutCancel(ctx), c.s, "make a node below "+c.dir, func(conn *zookeeper.Conn) (string, error) {
		return conn.Create(c.dir+"/"+c.id+"-", nil, zookeeper.FlagEphemeral|zookeeper.FlagSequence, openACL())
	})
	return err
}

// await waits until the znode at path is gone, or may be gone.
func (c *candidate) await(ctx context.Context, path string) error {
	gone, err := ask(ctx, c.s, "watch the candidate ahead", func(conn *zookeeper.Conn) (<-chan zookeeper.Event, error) {
		_, _, gone, err := conn.GetW(path)
		return gone, err
	})
	if err != nil {
		return err
	}
	again := time.NewTimer(c.s.timeout()) // in case the watch is lost
	defer again.Stop()
	select {
	case <-gone:
	case <-again.C:
	case <-c.s.ended:
	case <-ctx.Done():
	}
	return nil
}

// nodes returns the names of the role's candidates, in their order.
func (c *candidate) nodes(ctx context.Context) ([]string, error) {
	nodes, err := ask(ctx, c.s, "list "+c.dir, func(conn *zookeeper.Conn) ([]string, error) {
		nodes, _, err := conn.Children(c.dir)
		return nodes, err
	})
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return len(n) <= sequence })
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Compare(a[len(a)-sequence:], b[len(b)-sequence:]) })
	return nodes, err
}

// sequence is the number of digits that ZooKeeper appends to the name of a sequential znode.
const sequence = 10

func (c *candidate) owns(node string) bool { return strings.HasPrefix(node, c.id+"-") }

// withdraw removes the candidate's znodes, including one whose creation was not confirmed. If that
// fails, it ends the session, which removes them.
func (c *candidate) withdraw(ctx context.Context) {
	if c.s.why() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.s.timeout(), 2*time.Second))
	defer cancel()
	nodes, err := c.nodes(ctx)
	for _, n := range nodes {
		if err == nil && c.owns(n) {
			err = c.s.remove(ctx, c.dir+"/"+n)
		}
	}
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) {
		c.s.end(err)
	}
}

// makeDir creates the persistent znode at path and its parents.
func (s *session) makeDir(ctx context.Context, path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		_, err := ask(ctx, s, "make "+path[:i], func(conn *zookeeper.Conn) (string, error) {
			return conn.Create(path[:i], nil, 0, openACL())
		})
		if err != nil && !errors.Is(err, seedbed.ErrExists) {
			return err
		}
	}
	return nil
}

// remove deletes a znode. It returns nil if there is no such znode.
func (s *session) remove(ctx context.Context, path string) error {
	_, err := ask(ctx, s, "remove "+path, func(conn *zookeeper.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(path, -1)
	})
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil
	}
	return err
}

func openACL() []zookeeper.ACL { return zookeeper.WorldACL(zookeeper.PermAll) }
