// Package local is the coordination of an installation with one control host:
// the one member is there, and it leads.
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
	roles   map[string]chan struct{} // of capacity 1; full while the role is led
	members []seedbed.Member         // in the order in which they joined
}

// New makes a Coordination without members.
func New() *Coordination { return &Coordination{roles: map[string]chan struct{}{}} }

// Lead waits until no other call leads role, a name as seedbed.CheckName has
// it, and runs do, whose error it returns. do's context ends with ctx alone;
// once it has, Lead returns nil.
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

// Join keeps m among the members until ctx ends, and returns nil then.
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

// Members are those who have joined, by node; of two with the same node the
// one who came last.
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

// Run has nothing to do: it returns at once.
func (c *Coordination) Run(context.Context) error { return nil }

// Check tells the doctor that there is nothing that could fail.
func (c *Coordination) Check(ctx context.Context) []seedbed.Check {
	members, err := c.Members(ctx)
	return []seedbed.Check{{
		Name: "coordination", OK: err == nil,
		Detail: fmt.Sprintf("in this process: it leads, %d member", len(members)),
	}}
}
