package provision

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"seedbed"
)

// Coordination tells which control hosts there are, and which of them leads.
type Coordination interface {
	// Lead waits until this member leads role and runs do, whose context ends before another
	// member may lead; then it starts over. It returns what do returns by itself, and nil
	// once ctx has ended.
	Lead(ctx context.Context, role string, do func(ctx context.Context) error) error
	Members(ctx context.Context) ([]seedbed.Member, error)
}

// MemberStore keeps which control hosts the endpoints were told of.
type MemberStore interface {
	// KnownMembers are those that joined and have not left.
	KnownMembers(ctx context.Context) ([]string, error)
	// ChangeMembers tells of those that joined and those that left.
	ChangeMembers(ctx context.Context, joined []seedbed.Member, left []string) error
}

const (
	// memberRole is what the member leads that tells of the others.
	memberRole = "members"
	// memberPoll is how often the members are looked at.
	memberPoll = 5 * time.Second
	// memberAway is how long one is gone before it has left: a restart takes less.
	memberAway = 30 * time.Second
)

// Membership sees control hosts join and leave, on the member that leads. What
// was told is in the store, so that the end of a leader is told by the next.
type Membership struct {
	store        MemberStore
	coordination Coordination
	log          *slog.Logger
}

// NewMembership makes a Membership that does nothing before Run.
func NewMembership(store MemberStore, c Coordination, log *slog.Logger) *Membership {
	return &Membership{store: store, coordination: c, log: log}
}

// Run looks at the members until ctx ends, and returns nil then.
func (m *Membership) Run(ctx context.Context) error {
	return m.coordination.Lead(ctx, memberRole, func(ctx context.Context) error {
		away := map[string]time.Time{}
		failed := false
		for ctx.Err() == nil {
			err := m.look(ctx, away)
			if err != nil {
				clear(away) // nobody is gone who could not be seen
				if !failed && ctx.Err() == nil {
					m.log.Warn("cannot tell who joins and leaves", "err", err)
				}
			}
			failed = err != nil
			sleep(ctx, memberPoll)
		}
		return nil
	})
}

// look compares who is there with who was told of; away is since when those are gone.
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
