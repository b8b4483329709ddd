package guestplane

import (
	"context"
	"fmt"
)

// Alive makes Run look up a guest. It returns an error if there is no answer before ctx ends, or if
// the answer is wrong.
func (p *Plane) Alive(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case p.probes <- answer:
	case <-ctx.Done():
		return fmt.Errorf("the loop that keeps the servers does not answer: %w", ctx.Err())
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the directory does not answer: %w", ctx.Err())
	}
}

// check looks up one of the guests that were applied, as DHCP does.
func (p *Plane) check() error {
	state := p.lastState()
	if state.Guests == nil {
		return nil
	}
	bridges := bridgeNames(state)
	for _, g := range state.Guests {
		if len(g.NICs) == 0 || bridges.direct[g.NICs[0].Network] {
			continue
		}
		nic := g.NICs[0] // one NIC of one instance is enough
		if found, _, ok := p.directory.Find(bridges.names[nic.Network], nic.MAC); !ok || found.ID != g.ID {
			return fmt.Errorf("instance %s of revision %d is not in the directory", g.ID, state.Revision)
		}
		return nil
	}
	return nil
}
