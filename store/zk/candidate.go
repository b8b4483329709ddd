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

// candidate stands in one election with a node of its own.
type candidate struct {
	s   *session
	dir string // the role's znode
	id  string // by which the node is found again

	path  string // of the node
	token int64  // its czxid
}

func newCandidate(s *session, dir string) *candidate {
	return &candidate{s: s, dir: dir, id: uuid.NewString()}
}

// elect returns nil when the candidate's node is the lowest. While the
// connection is lost and the session lasts it goes on trying.
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
		case err == nil || errors.Is(err, seedbed.ErrNotFound): // the one ahead has gone
		case errors.Is(err, seedbed.ErrUnavailable):
			c.s.pause(ctx, retryLeast)
		default:
			return err
		}
	}
}

// look makes the candidate's node if there is none, and tells whether it is
// the lowest, else which node comes right before it.
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

// make makes the node, unless ctx has ended. What it asked for must not happen
// later: so it does not stop waiting with ctx, and without an answer the
// session ends.
func (c *candidate) make(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := ask(context.WithoutCancel(ctx), c.s, "make a node below "+c.dir, func(conn *zookeeper.Conn) (string, error) {
		return conn.Create(c.dir+"/"+c.id+"-", nil, zookeeper.FlagEphemeral|zookeeper.FlagSequence, openACL())
	})
	return err
}

// await waits until the node at path has gone, or may have.
func (c *candidate) await(ctx context.Context, path string) error {
	gone, err := ask(ctx, c.s, "watch the candidate ahead", func(conn *zookeeper.Conn) (<-chan zookeeper.Event, error) {
		_, _, gone, err := conn.GetW(path)
		return gone, err
	})
	if err != nil {
		return err
	}
	again := time.NewTimer(c.s.timeout()) // should the watch get lost
	defer again.Stop()
	select {
	case <-gone:
	case <-again.C:
	case <-c.s.ended:
	case <-ctx.Done():
	}
	return nil
}

// nodes are the candidates of the role, in their order.
func (c *candidate) nodes(ctx context.Context) ([]string, error) {
	nodes, err := ask(ctx, c.s, "list "+c.dir, func(conn *zookeeper.Conn) ([]string, error) {
		nodes, _, err := conn.Children(c.dir)
		return nodes, err
	})
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return len(n) <= sequence })
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Compare(a[len(a)-sequence:], b[len(b)-sequence:]) })
	return nodes, err
}

// sequence is how many digits ZooKeeper appends to a sequential node's name.
const sequence = 10

func (c *candidate) owns(node string) bool { return strings.HasPrefix(node, c.id+"-") }

// withdraw removes the candidate's nodes, also one whose making was not
// answered. If that cannot be done now the session ends, and they with it.
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

// makeDir makes the persistent node at path and those above it.
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

// remove deletes a node; one that is not there is fine.
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
