package webhook

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/provision/network"
)

// Networks makes, changes and removes networks for hooks. Hooks that ask for that need all of its fields.
type Networks struct {
	network.Rules
	Store NetworkStore
	// Change changes the fields of an instance that need no job, and what its guest is served.
	Change func(ctx context.Context, n seedbed.InstanceName, change func(*seedbed.Instance) error) (seedbed.Instance, error)
}

// NetworkStore reads and changes networks. A method that changes something does so in one transaction, in which it records the
// delivery of the context's [seedbed.Change] as done. It returns ErrExists if that was recorded before.
type NetworkStore interface {
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	Network(ctx context.Context, name string) (seedbed.Network, error)
	CreateNetwork(ctx context.Context, n seedbed.Network) (seedbed.Network, error)
	// ChangeNetwork does not record a change that changes nothing.
	ChangeNetwork(ctx context.Context, name string, change func(*seedbed.Network) error) (seedbed.Network, error)
	DeleteNetwork(ctx context.Context, name string, checks ...func(seedbed.Network) error) error
	FloatingAddress(ctx context.Context, addr netip.Addr) (seedbed.FloatingAddress, error)
}

// asked is what a delivery asks for.
type asked struct {
	seedbed.Request
	// change is set if it makes no job.
	change *change
}

// change is a change of a network or of a floating address that a delivery asks for.
type change struct {
	given    map[string]any // of network-add and network-set
	add      wire.NetworkRequest
	set      wire.NetworkChange
	instance string // of address-associate
	nic      *int
}

// changeRequest returns the request of a payload whose action makes no job. ErrInvalid names the member.
func (p payload) changeRequest() (a asked, err error) {
	a.Action, a.Name, a.change = p.Action, p.Name, &change{instance: p.Instance, nic: p.NIC}
	given, isMap := p.Network.(map[string]any)
	if p.Profile+p.Image+p.Node+p.OnFailure+p.After != "" || p.Params != nil || p.NICs != nil || p.Groups != nil || p.Priority != nil ||
		p.Volume != nil || p.Hold != nil || p.Protected != nil {
		return a, invalid("%s makes no job: expected only action, name, network, instance and nic", p.Action)
	}
	switch associates := p.Action == seedbed.DoAddressAssociate; {
	case describes(p.Action) && !isMap:
		return a, invalid("network is missing or of another type: expected a map with what the API's request has to %s", p.Action)
	case !describes(p.Action) && p.Network != nil:
		return a, invalid("network is for network-add and network-set: it cannot be set with %s", p.Action)
	case associates && p.Instance == "":
		return a, invalid("instance is missing: expected the name of the instance that gets the address")
	case !associates && (p.Instance != "" || p.NIC != nil):
		return a, invalid("instance and nic are for address-associate: they cannot be set with %s", p.Action)
	}
	switch a.change.given = given; p.Action {
	case seedbed.DoNetworkAdd:
		if err = decodeInto("network", given, &a.change.add); err == nil && a.change.add.Name != "" && a.change.add.Name != p.Name {
			err = invalid("network has the name %q, and name is %q: expected one of them", seedbed.Clip(a.change.add.Name), seedbed.Clip(p.Name))
		}
	case seedbed.DoNetworkSet:
		err = decodeInto("network", given, &a.change.set)
	}
	return a, err
}

// describes reports whether an action has the description of a network.
func describes(action string) bool {
	return action == seedbed.DoNetworkAdd || action == seedbed.DoNetworkSet
}

// decodeInto decodes the value of a member into a request of the API. The error names the member, and never its value.
func decodeInto(member string, given map[string]any, v any) error {
	text, err := json.Marshal(given)
	if err == nil {
		err = json.Unmarshal(text, v, json.RejectUnknownMembers(true))
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return invalid("%s: expected a map with the members of the API's request", member)
	case errors.Is(e, json.ErrUnknownName):
		return invalid("%s: member %s is unknown: expected those of the API's request", member, place(e.JSONPointer))
	}
	if inner, ok := errors.AsType[*seedbed.Error](e.Err); ok {
		return invalid("%s: member %s: %s", member, place(e.JSONPointer), inner.Msg)
	}
	return invalid("%s: member %s has the wrong type", member, place(e.JSONPointer))
}

// checkedChange is a change that a hook may make, as far as that is known before its transaction.
type checkedChange struct {
	// subject is the qualified name of the network, or the address.
	subject string
	before  any
	// after is what becomes of the network; nil for other changes.
	after *seedbed.Network
	do    func(context.Context) error
}

// check checks a change that a hook asks for. The hook may make the changes that an admin of its project may make.
func (r *Server) check(ctx context.Context, hook seedbed.Hook, a asked) (checkedChange, error) {
	switch a.Action {
	case seedbed.DoAddressAssociate, seedbed.DoAddressDisassociate:
		return r.checkAddress(ctx, hook, a)
	}
	name, err := ownNetwork(hook, a.Name)
	if err != nil {
		return checkedChange{}, err
	}
	c := checkedChange{subject: name}
	if a.Action == seedbed.DoNetworkAdd {
		a.change.add.Name = seedbed.ShortName(name)
		n, err := r.Networks.New(ctx, asker(hook), a.change.add, r.Networks.Store.Nodes)
		c.after, c.do = &n, func(ctx context.Context) error {
			_, err := r.Networks.Store.CreateNetwork(ctx, n)
			return err
		}
		return c, err
	}
	n, err := r.Networks.Store.Network(ctx, name)
	if err != nil {
		return c, err
	}
	c.before = n
	if a.Action == seedbed.DoNetworkRemove {
		c.do = func(ctx context.Context) error { return r.Networks.Store.DeleteNetwork(ctx, name) }
		return c, nil
	}
	set := a.change.set
	for _, named := range []*[]string{&set.Peer, &set.Unpeer} {
		peers := slices.Clone(*named)
		for i, peer := range peers {
			if named == &set.Unpeer && slices.Contains(n.Peers, peer) {
				continue // of another project
			}
			if peers[i], err = ownNetwork(hook, peer); err != nil {
				return c, err
			}
		}
		*named = peers
	}
	change, err := r.Networks.Rules.Change(ctx, asker(hook), set, r.Networks.Store.Nodes)
	if err != nil {
		return c, err
	}
	c.do = func(ctx context.Context) error {
		_, err := r.Networks.Store.ChangeNetwork(ctx, name, change)
		return err
	}
	n.Reservations = slices.Clone(n.Reservations)
	if err := change(&n); err != nil {
		return c, err
	}
	n.NAT = n.Kind == seedbed.NetworkNAT
	c.after = &n
	return c, n.Check()
}

// ownNetwork returns the qualified name of the network that a delivery means: one of its hook's project. It does not look whether
// there is one.
func ownNetwork(hook seedbed.Hook, name string) (string, error) {
	project, short, qualified := strings.Cut(name, "/")
	if !qualified {
		project, short = hook.Project, name
	}
	if project != hook.Project {
		return "", seedbed.Errorf(seedbed.ErrForbidden, "the hook acts in project %s: expected the name of a network of that project, not %q",
			hook.Project, seedbed.Clip(name))
	}
	return seedbed.Qualified(project, short), seedbed.CheckName("network", short)
}

// asker returns a hook as one who asks for a network. A hook of the default project may do what an admin of the installation may
// do: only those who may do that themselves can make such a hook.
func asker(hook seedbed.Hook) network.Asker {
	who := network.Asker{Name: actor(hook), Project: hook.Project, Home: hook.Project == seedbed.DefaultProject}
	if !who.Home {
		who.Protect = seedbed.Errorf(seedbed.ErrForbidden, "%s acts in project %s, but %s is about the installation as a whole",
			who.Name, who.Project, seedbed.ActionNetworkProtect)
	}
	return who
}

// actor is what the audit log calls a hook.
func actor(hook seedbed.Hook) string { return "hook " + hook.Name }

// checkAddress is check for a floating address.
func (r *Server) checkAddress(ctx context.Context, hook seedbed.Hook, a asked) (checkedChange, error) {
	addr, err := netip.ParseAddr(a.Name)
	if err != nil {
		return checkedChange{}, invalid("name %q is not an address: expected a floating one such as 203.0.113.16", seedbed.Clip(a.Name))
	}
	c := checkedChange{subject: addr.String()}
	f, err := r.Networks.Store.FloatingAddress(ctx, addr)
	if err == nil && f.Project != hook.Project {
		err = seedbed.Errorf(seedbed.ErrNotFound, "floating address %s is not allocated", addr)
	}
	if err != nil {
		return c, err
	}
	c.before = f
	of, set := seedbed.Named(hook.Project, a.change.instance), func(i *seedbed.Instance) error {
		at, err := i.NIC(a.change.nic)
		if err == nil {
			*i.NICs[at].FloatingOf(addr) = addr
		}
		return err
	}
	if a.Action == seedbed.DoAddressDisassociate {
		unused := seedbed.Errorf(seedbed.ErrConflict, "no instance has the floating address %s", addr)
		if f.Instance == "" {
			return c, unused
		}
		of, set = seedbed.ParseInstanceName(f.Instance), func(i *seedbed.Instance) error {
			at := slices.IndexFunc(i.NICs, func(n seedbed.NIC) bool { return *n.FloatingOf(addr) == addr })
			if at < 0 {
				return unused
			}
			*i.NICs[at].FloatingOf(addr) = netip.Addr{}
			return nil
		}
	} else {
		c.subject += " " + a.change.instance
	}
	may := func(i *seedbed.Instance) error {
		if !allowsProfile(hook, i.Profile) {
			return seedbed.Errorf(seedbed.ErrForbidden, "the hook does not allow the profile %q", seedbed.Clip(i.Profile))
		}
		return set(i)
	}
	c.do = func(ctx context.Context) error {
		_, err := r.Networks.Change(ctx, of, may)
		return err
	}
	if err := seedbed.CheckInstanceName(of.Name); err != nil {
		return c, err
	}
	i, err := r.Hooks.InstanceByName(ctx, of)
	if err == nil {
		i.NICs = slices.Clone(i.NICs)
		err = may(&i)
	}
	return c, err
}

// change makes the change that a delivery asks for, and records the delivery as done in the same transaction. A delivery that
// came before is answered as it was then.
func (r *Server) change(ctx context.Context, d *delivered, a asked) (outcome, error) {
	first, err := r.History.EarlierReceipt(ctx, d.Delivery)
	if first != nil || err != nil {
		return earlier(d, first), err
	}
	if err = r.makeOnce(ctx, d, a); err == nil {
		d.log().Info("webhook done", "action", a.Action, "name", seedbed.Clip(a.Name))
		return outcome{decision: seedbed.DecisionDone, delivery: d.ID}, nil
	}
	first, other := r.History.EarlierReceipt(ctx, d.Delivery) // of a copy that came at the same time
	if errors.Is(other, seedbed.ErrConflict) {
		err = other
	}
	if first != nil {
		return earlier(d, first), nil
	}
	return outcome{}, err
}

// makeOnce makes the change of a delivery that has not been recorded.
func (r *Server) makeOnce(ctx context.Context, d *delivered, a asked) error {
	if d.options != (seedbed.JobOptions{}) {
		return invalid("%s makes no job: expected no options of one", a.Action)
	}
	c, err := r.check(ctx, d.hook, a)
	if err != nil {
		return err
	}
	entry := d.entry()
	entry.Decision, entry.Detail = seedbed.DecisionDone, a.Action+" "+c.subject
	if err := c.do(seedbed.WithChange(ctx, d.change(ctx, a, c.before, &entry))); err != nil {
		return err
	}
	// What changes nothing is not recorded yet.
	if first, err := r.History.EarlierReceipt(ctx, d.Delivery); first != nil || err != nil {
		return err
	}
	return r.History.RecordDelivery(ctx, entry)
}

// change returns what the audit log is told. If a caller of the API asks for a redelivery, that caller is the actor, who learns no
// more than the hook may.
func (d *delivered) change(ctx context.Context, a asked, before any, entry *seedbed.Delivery) *seedbed.Change {
	home := d.hook.Project == seedbed.DefaultProject
	change := seedbed.Change{
		Actor: actor(d.hook), Project: d.hook.Project, Installation: true, From: d.Peer, Request: "POST /hooks/" + d.hook.Name,
	}
	if by := seedbed.ChangeOf(ctx); by != nil {
		change = *by
		change.Project, change.Visits = d.hook.Project, by.Visits || by.Installation && !home
	}
	change.Installation = change.Installation && home
	change.Delivery, change.Before = entry, nil
	asked := map[string]any{"action": a.Action, "name": a.Name}
	if a.change.given != nil {
		asked["network"] = a.change.given
	}
	if a.change.instance != "" {
		asked["instance"], asked["nic"] = a.change.instance, *cmp.Or(a.change.nic, new(int))
	}
	change.Asked, _ = json.Marshal(asked) // it came as JSON
	if before != nil {
		change.Before, _ = json.Marshal(before)
	}
	return &change
}

// earlier returns the outcome that a delivery had before; none without a receipt.
func earlier(d *delivered, receipt *seedbed.Receipt) outcome {
	switch {
	case receipt == nil:
		return outcome{}
	case receipt.Job == "":
		return outcome{decision: seedbed.DecisionDone, delivery: d.ID, receipt: *receipt}
	}
	return outcome{decision: seedbed.DecisionAccepted, delivery: d.ID, receipt: *receipt}
}
