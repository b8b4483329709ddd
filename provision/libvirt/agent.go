//go:build libvirt

package libvirt

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	lv "libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"seedbed"
	"seedbed/internal/cgate"
)

const (
	// agentWait is how long an agent has for an answer, in seconds: an answer that comes later is lost, and some MiB take a slow guest
	// that long. Before that, libvirt takes at most 5 seconds to find out whether it answers at all. A call of the API has longer than both.
	agentWait = 12
	// askTime limits a question with all of that.
	askTime = 30 * time.Second
	// maxAsks is how many agents are asked at the same time.
	maxAsks = 4
)

// newAgentGate returns the gate in front of guest agents.
func newAgentGate() *cgate.Gate {
	return cgate.New(cgate.Config{
		Library: "the guest agent", Owner: "the libvirt driver", Subject: "domain", Hint: "guests let their agents hang", Limit: askTime,
	})
}

// deafAgents are the guests whose agents have just not answered. They are not asked for a while, so that guests whose agents
// hang do not hold up the others. The zero value is ready to use.
type deafAgents struct {
	mu    sync.Mutex
	until map[seedbed.InstanceID]time.Time
}

// deafTime is how long such a guest is not asked.
const deafTime = 30 * time.Second

// check returns ErrUnavailable for a guest whose agent has just not answered.
func (a *deafAgents) check(id seedbed.InstanceID, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.until, func(_ seedbed.InstanceID, until time.Time) bool { return !now.Before(until) })
	if _, deaf := a.until[id]; !deaf {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "the guest agent of domain %s has just not answered in time: ask again in %s", id, deafTime)
}

// add adds a guest.
func (a *deafAgents) add(id seedbed.InstanceID, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.until = map[seedbed.InstanceID]time.Time{}
	}
	a.until[id] = now.Add(deafTime)
}

// AskAgent implements worker.Agent. The call to libvirt goes on if the caller leaves, and ends with the agent's time. Until it
// has really ended, no other call asks this guest, and there is one less for the others.
func (d *Driver) AskAgent(ctx context.Context, id seedbed.InstanceID, request []byte) ([]byte, error) {
	what := "ask the guest agent of domain " + string(id)
	return cgate.Through(ctx, d.agents, what, string(id), func(ctx context.Context) ([]byte, error) {
		if err := d.deaf.check(id, time.Now()); err != nil {
			return nil, err
		}
		select {
		case d.asks <- struct{}{}:
			defer func() { <-d.asks }()
		case <-ctx.Done():
			return nil, cgate.GaveUp("the guest agent", what, ctx.Err())
		}
		return connected(ctx, d, what, func(_ context.Context, conn *lv.Connect) ([]byte, error) {
			dom, _, err := findVisible(conn, id)
			if err != nil {
				return nil, err
			}
			defer free(dom)
			if err := agentIsThere(dom, id); err != nil {
				return nil, err
			}
			answer, err := dom.QemuAgentCommand(string(request), agentWait, 0)
			if silent(err) {
				d.deaf.add(id, time.Now())
			}
			return []byte(answer), agentError(id, err)
		})
	})
}

// silent reports whether an agent has not answered in time.
func silent(err error) bool {
	return has(err, lv.ERR_AGENT_UNRESPONSIVE) || has(err, lv.ERR_AGENT_UNSYNCED) || has(err, lv.ERR_AGENT_COMMAND_TIMEOUT)
}

// agentIsThere returns ErrConflict if the guest does not run, or no agent has opened the channel for it.
func agentIsThere(dom *lv.Domain, id seedbed.InstanceID) error {
	doc, err := running(dom, id)
	if err != nil {
		return err
	}
	state, _, err := dom.GetState()
	if err != nil {
		return absentDomain(err, id)
	}
	if state == lv.DOMAIN_PAUSED {
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s is paused, so its guest agent does not answer: let it go on first", id)
	}
	at := slices.IndexFunc(doc.Devices.Channels, func(c libvirtxml.DomainChannel) bool {
		return c.Target != nil && c.Target.VirtIO != nil && c.Target.VirtIO.Name == agentName
	})
	switch {
	case at < 0:
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s has no channel for a guest agent (%s)", id, agentName)
	case doc.Devices.Channels[at].Target.VirtIO.State == "disconnected":
		return noAgent(id, "its channel is closed in the guest")
	}
	return nil
}

// noAgent is the error of an agent that does not answer. why is libvirt's word on it.
func noAgent(id seedbed.InstanceID, why string) error {
	return seedbed.Errorf(seedbed.ErrConflict, "no guest agent answers in domain %s: install and start qemu-guest-agent in the guest "+
		"(Debian: apt install qemu-guest-agent), or restart it there: %s", id, why)
}

// agentError translates what libvirt reports about an agent. Its text may be the guest's.
func agentError(id seedbed.InstanceID, err error) error {
	if err == nil {
		return nil
	}
	text := strconv.Quote(seedbed.ClipTo(messageOf(err), 500))
	switch {
	case has(err, lv.ERR_AGENT_COMMAND_TIMEOUT):
		return seedbed.Errorf(seedbed.ErrUnavailable, "the guest agent of domain %s did not answer within %d s: "+
			"what it was asked may have been done", id, agentWait)
	case silent(err): // it was asked for nothing yet
		return noAgent(id, text)
	case has(err, lv.ERR_AGENT_COMMAND_FAILED) || has(err, lv.ERR_INTERNAL_ERROR):
		return seedbed.Errorf(seedbed.ErrAgentRefuses, "the guest agent of domain %s refuses: %s", id, text)
	case has(err, lv.ERR_RPC): // it is larger than what libvirt's daemon passes on, which is 4 MiB
		return seedbed.Errorf(seedbed.ErrTooLargeAnswer, "the answer of the guest agent of domain %s is too large: %s", id, text)
	case has(err, lv.ERR_SYSTEM_ERROR): // it is larger than what the daemon reads, which is 10 MiB
		return seedbed.Errorf(seedbed.ErrTooLargeAnswer, "the answer of the guest agent of domain %s is too large, and libvirt has given "+
			"the agent up for it: restart qemu-guest-agent in the guest, or the guest: %s", id, text)
	}
	return err
}
