package placement

import (
	"context"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// Hosts lists the hypervisors, and what they have.
type Hosts interface {
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	NodeUse(ctx context.Context) ([]seedbed.NodeUse, error)
	// NodeChanges returns a number that grows with each change of the nodes by this process.
	NodeChanges() int64
	// PoolUse returns the sizes of the instances' volumes, by node and pool.
	PoolUse(ctx context.Context) ([]seedbed.PoolUse, error)
	// GroupMembers returns the instances of placement groups.
	GroupMembers(ctx context.Context) ([]seedbed.GroupMember, error)
}

// snapshotAge is how old the data of placement may be. What another control host chose or changed in
// that time is not seen.
const snapshotAge = time.Second

// snapshot is the nodes and what they have, at one moment.
type snapshot struct {
	nodes []seedbed.Node
	use   map[string]seedbed.NodeUse
	// pools has the sizes of the volumes of each node's instances.
	pools map[poolAt]seedbed.Bytes
	// members counts the instances of placement groups; none is 0.
	members map[seedbed.GroupMember]int
}

// poolAt is a pool as one node has it.
type poolAt struct{ node, pool string }

// Placer chooses nodes by a snapshot, to which it adds its own choices since then.
type Placer struct {
	hosts Hosts
	conf  Config
	// localNode is the only node of an installation without registered nodes; may be empty.
	localNode string
	now       func() time.Time

	mu       sync.Mutex
	loaded   time.Time // when the last read began; zero before the first
	changes  int64     // how many changes of the nodes that read included
	loading  bool
	snapshot snapshot
	// reservations are the choices that the last read may not have included.
	reservations map[*Reservation]bool
}

// New returns a placer that chooses among hosts; own is the node of this host.
func New(hosts Hosts, localNode string, conf Config) *Placer {
	return &Placer{hosts: hosts, localNode: localNode, conf: conf, now: time.Now, reservations: map[*Reservation]bool{}}
}

// Reservation is a reservation of a node for an instance.
type Reservation struct {
	// Node is its name.
	Node string

	placer *Placer
	takes  seedbed.NodeUse
	sizes  map[string]seedbed.Bytes
	id     seedbed.InstanceID
	group  string
	// settled is when the instance was stored; zero before.
	settled time.Time
}

// Settle ends a reservation: the instance is in the database now, or will not be.
func (r *Reservation) Settle(made bool) {
	p := r.placer
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reservations[r] {
		return
	}
	if made {
		r.settled = p.now()
		return
	}
	delete(p.reservations, r)
	p.snapshot.add(r, -1)
}

// add adds what a reservation takes, or with sign -1 removes it.
func (p snapshot) add(r *Reservation, sign int) {
	takes := r.takes
	for pool, size := range r.sizes {
		p.pools[poolAt{r.Node, pool}] += seedbed.Bytes(sign) * size
	}
	if m, grouped := r.member(); grouped {
		if p.members[m] += sign; p.members[m] == 0 {
			delete(p.members, m)
		}
	}
	u, size := p.use[takes.Node], seedbed.Bytes(sign)
	u.Instances, u.VCPUs, u.ComingVCPUs = u.Instances+sign, u.VCPUs+sign*takes.VCPUs, u.ComingVCPUs+sign*takes.VCPUs
	u.Memory, u.ComingMemory = u.Memory+size*takes.Memory, u.ComingMemory+size*takes.Memory
	u.Restarts += size * takes.Restarts
	p.use[takes.Node] = u
}

// refresh reads the snapshot again if it is too old and no other goroutine is reading it, or if it
// lacks a change of this process or the node that is asked for.
func (p *Placer) refresh(ctx context.Context, asked string) error {
	p.mu.Lock()
	began, changes := p.now(), p.hosts.NodeChanges()
	first := p.loaded.IsZero()
	known := asked == "" || slices.ContainsFunc(p.snapshot.nodes, func(n seedbed.Node) bool { return n.Name == asked })
	if !first && known && changes == p.changes && (p.loading || began.Sub(p.loaded) < snapshotAge) {
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
	case err != nil, began.Before(p.loaded), changes < p.changes: // keep the last snapshot
		return nil
	}
	for s := range p.reservations {
		if !s.settled.IsZero() && s.settled.Before(began) {
			delete(p.reservations, s) // the read included it
			continue
		}
		fresh.add(s, 1)
	}
	p.snapshot, p.loaded, p.changes = fresh, began, changes
	return nil
}

// counts reports whether the use of that many nodes matters: that of a single node only matters if
// there is a bound.
func (p *Placer) counts(nodes int) bool {
	return nodes > 1 || p.conf.TolerateFailures != 0 || p.conf.MemoryOvercommit != 0 || p.conf.VCPUOvercommit != 0
}

// read reads the database.
func (p *Placer) read(ctx context.Context) (snapshot, error) {
	fresh := snapshot{use: map[string]seedbed.NodeUse{}, pools: map[poolAt]seedbed.Bytes{}}
	var err error
	if fresh.nodes, err = p.hosts.Nodes(ctx); err != nil {
		return fresh, err
	}
	if len(fresh.nodes) == 0 && p.localNode != "" {
		fresh.nodes = []seedbed.Node{{Name: p.localNode}}
	}
	if slices.ContainsFunc(fresh.nodes, func(n seedbed.Node) bool { return len(n.Report.Pools) > 0 }) {
		all, err := p.hosts.PoolUse(ctx)
		if err != nil {
			return fresh, err
		}
		for _, u := range all {
			fresh.pools[poolAt{u.Node, u.Pool}] = u.Size
		}
	}
	members, err := p.hosts.GroupMembers(ctx)
	if fresh.members = membersOf(members); err != nil || !p.counts(len(fresh.nodes)) {
		return fresh, err
	}
	all, err := p.hosts.NodeUse(ctx)
	for _, u := range all {
		fresh.use[u.Node] = u
	}
	return fresh, err
}

// Choose reserves a node for an instance. The caller must settle the reservation. It returns
// seedbed.ErrInvalid if no node will ever do or the node asked for does not exist, and ErrFull if
// no node can take the instance now.
func (p *Placer) Choose(ctx context.Context, w Demand) (*Reservation, error) {
	if err := p.refresh(ctx, w.Node); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.snapshot.weigh(w, p.conf, p.now())
	if len(all) == 0 || all[0].refused != "" {
		return nil, none(w, all)
	}
	node := all[0].node.Name
	s := &Reservation{Node: node, placer: p, takes: w.takes(node), sizes: w.Sizes,
		id: w.ID, group: w.Group}
	p.reservations[s] = true
	p.snapshot.add(s, 1)
	return s, nil
}

// Explain returns what Choose would do now: every node, and the error if none is chosen.
func (p *Placer) Explain(ctx context.Context, w Demand) (node string, all []seedbed.Placement, err error) {
	if err := p.refresh(ctx, w.Node); err != nil {
		return "", nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	candidates := p.snapshot.weigh(w, p.conf, p.now())
	for _, c := range candidates {
		all = append(all, seedbed.Placement{Node: c.node.Name, Refused: c.refused, Reason: p.snapshot.reason(c, p.conf.selector(w))})
	}
	if len(candidates) == 0 || candidates[0].refused != "" {
		return "", all, none(w, candidates)
	}
	all[0].Chosen = true
	return all[0].Node, all, nil
}

// Fits returns an error if the node on which an instance stays cannot run it with these resources:
// seedbed.ErrInvalid if it never will, and ErrFull if it has no room for what is more than has,
// which the instance has now.
func (p *Placer) Fits(ctx context.Context, node string, w Demand, has seedbed.NodeUse) error {
	if err := p.refresh(ctx, node); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.snapshot.nodes, func(n seedbed.Node) bool { return n.Name == node })
	if at < 0 {
		return nil // the job waits for the node
	}
	kind, why := seedbed.ErrInvalid, p.snapshot.unfit(p.snapshot.nodes[at], w)
	if why == "" {
		kind, why = seedbed.ErrFull, p.snapshot.over(p.snapshot.nodes[at], w, has, p.conf)
	}
	if why == "" {
		why = p.snapshot.unreserved(node, w, has, p.conf, p.now())
	}
	if why != "" {
		return seedbed.Errorf(kind, "node %q, on which %s runs, cannot run it with these resources: %s", node, w.subject(), why)
	}
	return nil
}
