package placement

import (
	"context"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// Hosts are the hypervisors, and what they have.
type Hosts interface {
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	NodeUse(ctx context.Context) ([]seedbed.NodeUse, error)
}

// pictureAge is how old what placement goes by may be. Another control host's
// choices of that time are not seen.
const pictureAge = time.Second

// picture is the nodes and what they have, as of a moment.
type picture struct {
	nodes []seedbed.Node
	use   map[string]seedbed.NodeUse
}

// Placer chooses nodes, by a picture to which it adds what it has chosen since.
type Placer struct {
	hosts Hosts
	conf  Config
	// own is the only node of an installation that knows none; may be empty.
	own string
	now func() time.Time

	mu      sync.Mutex
	loaded  time.Time // when reading the picture began; zero before the first
	loading bool
	picture picture
	// seats are the choices that the picture's reading may not have found.
	seats map[*Seat]bool
}

func New(hosts Hosts, own string, conf Config) *Placer {
	return &Placer{hosts: hosts, own: own, conf: conf, now: time.Now, seats: map[*Seat]bool{}}
}

// Seat is a node that was chosen for an instance.
type Seat struct {
	// Node is its name.
	Node string

	placer *Placer
	takes  seedbed.NodeUse
	// settled is when the instance was written down; zero before.
	settled time.Time
}

// Settle ends a choice: the instance is in the database now, or it was not to be.
func (s *Seat) Settle(made bool) {
	p := s.placer
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.seats[s] {
		return
	}
	if made {
		s.settled = p.now()
		return
	}
	delete(p.seats, s)
	p.picture.add(s.takes, -1)
}

// add counts what an instance takes, or with -1 does not.
func (p picture) add(takes seedbed.NodeUse, sign int) {
	u, size := p.use[takes.Node], seedbed.Bytes(sign)
	u.Instances, u.VCPUs, u.ComingVCPUs = u.Instances+sign, u.VCPUs+sign*takes.VCPUs, u.ComingVCPUs+sign*takes.VCPUs
	u.Memory, u.ComingMemory = u.Memory+size*takes.Memory, u.ComingMemory+size*takes.Memory
	p.use[takes.Node] = u
}

// refresh reads the picture again when it is too old, unless somebody does already,
// and when it does not have the node that is asked for, if one is.
func (p *Placer) refresh(ctx context.Context, asked string) error {
	p.mu.Lock()
	began := p.now()
	first := p.loaded.IsZero()
	known := asked == "" || slices.ContainsFunc(p.picture.nodes, func(n seedbed.Node) bool { return n.Name == asked })
	if !first && known && (p.loading || began.Sub(p.loaded) < pictureAge) {
		p.mu.Unlock()
		return nil
	}
	p.loading = true
	p.mu.Unlock()
	fresh, err := p.read(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loading = false
	switch {
	case err != nil && first:
		return err
	case err != nil, began.Before(p.loaded): // what there is must do
		return nil
	}
	for s := range p.seats {
		if !s.settled.IsZero() && s.settled.Before(began) {
			delete(p.seats, s) // it was found
			continue
		}
		fresh.add(s.takes, 1)
	}
	p.picture, p.loaded = fresh, began
	return nil
}

// counts reports whether what so many nodes have matters: that of a single one does
// against a bound alone.
func (p *Placer) counts(nodes int) bool {
	return nodes > 1 || p.conf.MemoryOvercommit != 0 || p.conf.VCPUOvercommit != 0
}

// read asks the database.
func (p *Placer) read(ctx context.Context) (picture, error) {
	fresh := picture{use: map[string]seedbed.NodeUse{}}
	var err error
	if fresh.nodes, err = p.hosts.Nodes(ctx); err != nil {
		return fresh, err
	}
	if len(fresh.nodes) == 0 && p.own != "" {
		fresh.nodes = []seedbed.Node{{Name: p.own}}
	}
	if !p.counts(len(fresh.nodes)) {
		return fresh, nil
	}
	all, err := p.hosts.NodeUse(ctx)
	for _, u := range all {
		fresh.use[u.Node] = u
	}
	return fresh, err
}

// Choose takes a node for what is wanted. Who asks must settle the seat.
// Errors: seedbed.ErrInvalid where no node will ever do or the one that was asked
// for does not exist, and ErrFull where none does now.
func (p *Placer) Choose(ctx context.Context, w Demand) (*Seat, error) {
	if err := p.refresh(ctx, w.Node); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.picture.weigh(w, p.conf, p.now())
	if len(all) == 0 || all[0].refused != "" {
		return nil, none(w, all)
	}
	node := all[0].node.Name
	s := &Seat{Node: node, placer: p, takes: seedbed.NodeUse{Node: node, VCPUs: w.VCPUs, Memory: w.Memory}}
	if p.counts(len(all)) {
		p.seats[s] = true
		p.picture.add(s.takes, 1)
	}
	return s, nil
}

// Explain is what choose would do now: every node, and the error if none is chosen.
func (p *Placer) Explain(ctx context.Context, w Demand) (node string, all []seedbed.Placement, err error) {
	if err := p.refresh(ctx, w.Node); err != nil {
		return "", nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	judged := p.picture.weigh(w, p.conf, p.now())
	for _, c := range judged {
		all = append(all, seedbed.Placement{Node: c.node.Name, Refused: c.refused, Reason: p.picture.reason(c, p.conf.selector(w))})
	}
	if len(judged) == 0 || judged[0].refused != "" {
		return "", all, none(w, judged)
	}
	all[0].Chosen = true
	return all[0].Node, all, nil
}

// Fits refuses, with seedbed.ErrInvalid, to have what is wanted on the node that it
// is to stay on.
func (p *Placer) Fits(ctx context.Context, node string, w Demand) error {
	if err := p.refresh(ctx, node); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.picture.nodes, func(n seedbed.Node) bool { return n.Name == node })
	if at < 0 {
		return nil // its job waits for it
	}
	if why := p.picture.unfit(p.picture.nodes[at], w); why != "" {
		return seedbed.Errorf(seedbed.ErrInvalid, "node %q, where %s is and stays, cannot run it so: %s", node, w.subject(), why)
	}
	return nil
}
