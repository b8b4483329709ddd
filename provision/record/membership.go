package record

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
)

// Coordination lists the control hosts and elects their leader.
type Coordination interface {
	// Lead waits until this member leads role and then runs do, whose context ends before another
	// member may lead; then it starts over. It returns what do returns by itself, and nil once ctx
	// has ended.
	Lead(ctx context.Context, role string, do func(ctx context.Context) error) error
	Members(ctx context.Context) ([]seedbed.Member, error)
}

// MemberStore keeps the control hosts that the endpoints know of.
type MemberStore interface {
	// KnownMembers returns the members that joined and have not left.
	KnownMembers(ctx context.Context) ([]string, error)
	// ChangeMembers records members that joined and members that left, and sends the events about
	// them.
	ChangeMembers(ctx context.Context, joined []seedbed.Member, left []string) error
}

const (
	// memberRole is the role whose leader reports the members.
	memberRole = "members"
	// memberPoll is how often the list of members is read.
	memberPoll = 5 * time.Second
	// memberAway is how long a member must be absent to count as having left; a restart takes less.
	memberAway = 30 * time.Second
)

// Membership reports control hosts that join and leave. It runs on the leading member. The store
// records what was reported, so the next leader reports the end of the previous one.
type Membership struct {
	store        MemberStore
	coordination Coordination
	log          *slog.Logger
}

// NewMembership makes a Membership. It does nothing before Run.
func NewMembership(store MemberStore, c Coordination, log *slog.Logger) *Membership {
	return &Membership{store: store, coordination: c, log: log}
}

// Run polls the members until ctx ends, and then returns nil.
func (m *Membership) Run(ctx context.Context) error {
	return m.coordination.Lead(ctx, memberRole, func(ctx context.Context) error {
		away := map[string]time.Time{}
		failed := false
		for ctx.Err() == nil {
			err := m.look(ctx, away)
			if err != nil {
				clear(away) // a member that could not be seen does not count as absent
				if !failed && ctx.Err() == nil {
					m.log.Warn("cannot tell who joins and leaves", "err", err)
				}
			}
			failed = err != nil
			sleep.For(ctx, memberPoll)
		}
		return nil
	})
}

// look compares the present members with the reported ones. away maps absent members to when they
// were first absent.
func (m *Membership) look(ctx context.Context, away map[string]time.Time) error {
	present, err := m.coordination.Members(ctx)
	if err != nil {
		return err
	}
	known, err := m.store.KnownMembers(ctx)
	if err != nil {
		return err
	}
	var joined []seedbed.Member
	for _, p := range present {
		delete(away, p.Node)
		if !slices.Contains(known, p.Node) {
			joined = append(joined, p)
		}
	}
	var left []string
	for _, name := range known {
		if slices.ContainsFunc(present, func(p seedbed.Member) bool { return p.Node == name }) {
			continue
		}
		if away[name].IsZero() {
			away[name] = time.Now()
		}
		if time.Since(away[name]) >= memberAway {
			left = append(left, name)
		}
	}
	if len(joined)+len(left) == 0 {
		return nil
	}
	if err := m.store.ChangeMembers(ctx, joined, left); err != nil {
		return err
	}
	for _, name := range left {
		delete(away, name)
		m.log.Warn("a control host has left", "node", name)
	}
	for _, p := range joined {
		m.log.Info("a control host has joined", "node", p.Node)
	}
	return nil
}
