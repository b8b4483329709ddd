// Package local is the coordination of an installation with one control host, which is the only
// member and leads every role.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"seedbed"
)

// Coordination coordinates within this process.
type Coordination struct {
	mu      sync.Mutex
	roles   map[string]chan struct{} // of capacity 1; full while a call leads the role
	members []seedbed.Member         // in the order of joining
}

// New returns a Coordination without members.
func New() *Coordination { return &Coordination{roles: map[string]chan struct{}{}} }

// Lead waits until no other call leads role, and runs do, whose error it returns. role must pass
// seedbed.CheckName. do's context ends only with ctx. Once ctx has ended, Lead returns nil.
func (c *Coordination) Lead(ctx context.Context, role string, do func(context.Context) error) error {
	if err := seedbed.CheckName("role", role); err != nil {
		return err
	}
	c.mu.Lock()
	if c.roles[role] == nil {
		c.roles[role] = make(chan struct{}, 1)
	}
	led := c.roles[role]
	c.mu.Unlock()
	select {
	case led <- struct{}{}:
		defer func() { <-led }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil
	}
	err := do(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Join keeps m among the members until ctx ends, and then returns nil.
func (c *Coordination) Join(ctx context.Context, m seedbed.Member) error {
	if err := seedbed.CheckName("node", m.Node); err != nil {
		return err
	}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.members, m)
	c.members = slices.Delete(c.members, i, i+1)
	return nil
}

// Members returns the members sorted by node. Of two members with the same node it returns the one
// that joined last.
func (c *Coordination) Members(context.Context) ([]seedbed.Member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	members := []seedbed.Member{}
	for _, m := range c.members {
		members = slices.DeleteFunc(members, func(o seedbed.Member) bool { return o.Node == m.Node })
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b seedbed.Member) int { return cmp.Compare(a.Node, b.Node) })
	return members, nil
}

// Run does nothing and returns nil at once.
func (c *Coordination) Run(context.Context) error { return nil }

// Check reports to the doctor command that nothing can fail here.
func (c *Coordination) Check(ctx context.Context) []seedbed.Check {
	members, err := c.Members(ctx)
	return []seedbed.Check{{
		Name: "coordination", OK: err == nil,
		Detail: fmt.Sprintf("in this process: it leads, %d member", len(members)),
	}}
}
