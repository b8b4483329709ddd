package rest

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/api/reach"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

const (
	defaultPath = "/latest/meta-data/"
	// keptEvents exceeds the number of events that are kept of any instance.
	keptEvents = 100000
)

func (r *router) createInstance(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var req wire.InstanceRequest
	if err := server.ReceiveUpTo(c, &req, r.MaxDocuments()); err != nil {
		return seedbed.Receipt{}, err
	}
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return seedbed.Receipt{}, err
	}
	if req.Profile != "" || req.Image == "" && req.Params["cdrom"] == nil {
		if _, err := seedbed.Meant(seedbed.PublishedProfile, server.CallerOf(c).Project, req.Profile); err != nil {
			return seedbed.Receipt{}, err
		}
	}
	if err := server.ChoosesNode(c, req.Node); err != nil {
		return seedbed.Receipt{}, err
	}
	r.WithholdSecrets(ctx, c, req.Profile, req.Params)
	if err := r.checkScriptRequest(ctx, server.CallerOf(c).Project, req); err != nil {
		return seedbed.Receipt{}, err
	}
	if err := server.CheckParams(ctx, c, req.Params); err != nil {
		return seedbed.Receipt{}, err
	}
	if err := expires(c, req.NewInstance); err != nil {
		return seedbed.Receipt{}, err
	}
	create := newInstance(req.NewInstance)
	create.Project = server.CallerOf(c).Project
	create.Action, create.Name, create.Profile, create.Image, create.Params = seedbed.DoCreate, req.Name, req.Profile, req.Image, req.Params
	create.Arguments, create.Undefined, create.JobOptions = req.Arguments, req.DisksOnly, o
	return r.Intake.Submit(ctx, create, nil)
}

// newInstance returns a request with the settings that a create and its plan share.
func newInstance(n wire.NewInstance) seedbed.Request {
	return seedbed.Request{Hold: n.Hold, Protected: n.Protected, Expires: n.Expires, AtExpiry: n.AtExpiry, Node: n.Node,
		Network: n.Network, NICs: n.NICs, SecurityGroups: n.SecurityGroups, Ready: n.Ready}
}

// expires returns ErrForbidden if a request has a new instance removed by its expiry, and the caller may not remove instances.
func expires(c *fiber.Ctx, n wire.NewInstance) error {
	if n.AtExpiry != seedbed.ExpiryRemove {
		return nil
	}
	return server.CallerOf(c).Need(seedbed.ActionInstanceRemove)
}

// checkScriptRequest refuses what only a profile with a script can do for one without.
func (r *router) checkScriptRequest(ctx context.Context, project string, req wire.InstanceRequest) error {
	if len(req.Arguments) == 0 && !req.DisksOnly {
		return nil
	}
	var p seedbed.Profile
	name, err := r.Store.Resolve(ctx, seedbed.PublishedProfile, project, req.Profile)
	if err == nil {
		p, err = r.Store.Profile(ctx, name)
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		return nil // the intake says so
	}
	if err == nil && p.Script == "" {
		err = server.Invalid("profile %q has no script: only a profile with one takes arguments or makes only disks", p.Name)
	}
	return err
}

// named returns the instance that the path names.
func (r *router) named(ctx context.Context, c *fiber.Ctx) (seedbed.Instance, error) {
	n := c.Params("name")
	if err := seedbed.CheckInstanceName(n); err != nil {
		return seedbed.Instance{}, err
	}
	return r.Store.InstanceByName(ctx, server.CallerOf(c).Instance(n))
}

func (r *router) instance(ctx context.Context, c *fiber.Ctx) error {
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	return r.tagged(ctx, c, i)
}

// tagged answers with an instance.
func (r *router) tagged(ctx context.Context, c *fiber.Ctx, i seedbed.Instance) error {
	if err := r.showAddrs6(ctx, i); err != nil {
		return err
	}
	return server.Tagged(c, server.InstanceTag(i), i)
}

// showAddrs6 sets the IPv6 addresses of an instance's NICs.
func (r *router) showAddrs6(ctx context.Context, i seedbed.Instance) error {
	for at := range i.NICs {
		nic := &i.NICs[at]
		n, err := r.Store.Network(ctx, nic.Network)
		if err != nil && !errors.Is(err, seedbed.ErrNotFound) { // it was removed meanwhile
			return err
		}
		nic.Addr6 = n.Addr6(nic.MAC)
	}
	return nil
}

func (r *router) removeInstance(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n := c.Params("name")
	if err := seedbed.CheckInstanceName(n); err != nil {
		return seedbed.Receipt{}, err
	}
	keep, err := switched(c, "keep_disks")
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.Intake.Submit(ctx, seedbed.Request{
		Action: "remove", Project: server.CallerOf(c).Project, Name: n, Confirm: strings.Clone(c.Query("confirm")), KeepDisks: keep,
		JobOptions: o,
	}, nil)
}

func (r *router) console(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.Tail(c)
	if err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	text, err := r.Console.Console(ctx, i.Node, i.ID, n)
	if err != nil {
		return err
	}
	if len(text) == 0 && !i.System.Serial {
		return seedbed.Errorf(seedbed.ErrConflict, "instance %s has no serial console: "+
			"its system template asks for none (seedbed provisioner template system modify NAME --serial, before it is made or rebuilt)", i.Name)
	}
	return guestBytes(c, "text/plain; charset=utf-8", text)
}

// openConsole answers with a ticket to an instance's serial console.
func (r *router) openConsole(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ConsoleRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	who := server.CallerOf(c)
	ch := server.Channel{Instance: i.FullName(), Node: i.Node, Action: seedbed.ActionConsoleOpen, What: "the console",
		Console: &seedbed.ConsoleSession{ID: i.ID, Write: !req.ReadOnly, Take: req.Take, Tail: req.Tail, Who: who.Shown()}}
	if req.ReadOnly {
		ch.What = "the console, to read,"
	}
	if err := ch.Console.Check(); err != nil {
		return err
	}
	return r.ticket(ctx, c, i, ch)
}

// openScreen answers with a ticket to an instance's screen.
func (r *router) openScreen(ctx context.Context, c *fiber.Ctx) error {
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	return r.ticket(ctx, c, i, server.Channel{Instance: i.FullName(), Node: i.Node, Action: seedbed.ActionConsoleOpen, What: "the screen",
		Screen: i.ID})
}

// ticket answers with a ticket to something of an instance that runs.
func (r *router) ticket(ctx context.Context, c *fiber.Ctx, i seedbed.Instance, ch server.Channel) error {
	if err := runs(i); err != nil {
		return err
	}
	return r.giveTicket(ctx, c, ch)
}

func (r *router) giveTicket(ctx context.Context, c *fiber.Ctx, ch server.Channel) error {
	t, err := r.IssueTicket(ctx, c, ch)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusCreated, t)
}

// runs returns ErrConflict if an instance is stopped.
func runs(i seedbed.Instance) error {
	if i.State == seedbed.InstanceStopped {
		return seedbed.Errorf(seedbed.ErrConflict, "instance %s is stopped: start it first (seedbed vm start %s)", i.Name, i.Name)
	}
	return nil
}

// screenshot answers with what an instance's screen shows.
func (r *router) screenshot(ctx context.Context, c *fiber.Ctx) error {
	i, err := r.named(ctx, c)
	if err == nil {
		err = runs(i)
	}
	if err != nil {
		return err
	}
	picture, err := r.Screenshot(ctx, i)
	if err != nil {
		return err
	}
	return guestBytes(c, "image/png", picture)
}

// access lists the events of an instance's guest, newest first.
func (r *router) access(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.Limit(c, server.DefaultLimit)
	if err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	f, err := filterOf(c)
	if err != nil {
		return err
	}
	after, err := partsOf(c, "guest event", 2)
	if err != nil {
		return err
	}
	cursor := func(e seedbed.GuestEvent) string { return cursorOf(e.At, strconv.FormatInt(e.Seq, 10)) }
	return server.Page(c, n, cursor, func(n int) ([]seedbed.GuestEvent, error) {
		if f.none() && after == nil {
			return r.Store.GuestEvents(ctx, i.ID, n)
		}
		all, err := r.Store.GuestEvents(ctx, i.ID, keptEvents)
		if after != nil { // the events that are gone are older than the others
			last := slices.IndexFunc(all, func(e seedbed.GuestEvent) bool { return cursor(e) == c.Query("after") })
			if last < 0 {
				last = len(all) - 1
			}
			all = all[last+1:]
		}
		return f.apply(all, n), err
	})
}

// trace returns the ways of packets of an instance: of one to an address, or of those that every guest needs.
func (r *router) trace(ctx context.Context, c *fiber.Ctx) error {
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	p, err := packet(c, i)
	if err != nil {
		return err
	}
	w, err := r.world(ctx, server.CallerOf(c))
	if err != nil {
		return err
	}
	if !p.To.IsValid() {
		all, err := w.Needs(ctx, i, p.NIC)
		if err != nil {
			return err
		}
		return c.JSON(all)
	}
	one, err := w.Trace(ctx, p)
	if err != nil {
		return err
	}
	return c.JSON([]seedbed.Trace{one})
}

// packet reads the packet of an instance that is asked about. Without an address, it has none.
func packet(c *fiber.Ctx, i seedbed.Instance) (p reach.Packet, err error) {
	p.From, p.Protocol = i, strings.Clone(c.Query("protocol"))
	var index *int
	if asked := c.Query("nic"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil {
			return p, server.Invalid("nic %q: expected the index of a NIC of %s", seedbed.Clip(asked), i.Name)
		}
		index = &n
	}
	if p.NIC, err = i.NIC(index); err != nil {
		return p, err
	}
	to, port := c.Query("to"), c.Query("port")
	if to == "" {
		if port != "" || p.Protocol != "" {
			return p, server.Invalid("to is missing: expected the address that protocol and port are about")
		}
		return p, nil
	}
	if p.To, err = netip.ParseAddr(to); err != nil {
		return p, server.Invalid("to %q is not an address such as 10.99.0.2", seedbed.Clip(to))
	}
	if port != "" {
		if p.Port, err = seedbed.ParsePort(port); err != nil {
			return p, err
		}
	}
	if p.Protocol == "" {
		if p.Protocol = "icmp"; port != "" {
			p.Protocol = "tcp"
		}
	}
	return p, p.Check()
}

// world returns what traces of a caller are made from.
func (r *router) world(ctx context.Context, who server.Caller) (w reach.World, err error) {
	in := who.Scope()
	w.Learns, w.Inside = who.Learns, who.May(seedbed.ActionNodeRead)
	w.Holder = func(ctx context.Context, network string, a netip.Addr) (seedbed.Instance, int, bool, error) {
		return r.holder(ctx, in, network, a)
	}
	w.Instance = func(ctx context.Context, name string) (seedbed.Instance, bool, error) {
		i, err := r.Store.InstanceByName(ctx, seedbed.ParseInstanceName(name))
		if errors.Is(err, seedbed.ErrNotFound) { // it was removed meanwhile
			return i, false, nil
		}
		return i, err == nil, err
	}
	w.Floating = func(ctx context.Context, a netip.Addr) (instance string, nic int, err error) {
		f, err := r.addressNamed(ctx, who, a.String())
		if errors.Is(err, seedbed.ErrNotFound) {
			return "", 0, nil
		}
		return f.Instance, f.NIC, err
	}
	if w.Networks, err = r.Store.Networks(ctx); err != nil {
		return w, err
	}
	if w.Groups, err = r.Store.SecurityGroups(ctx); err != nil {
		return w, err
	}
	if w.Nodes, err = r.Store.Nodes(ctx); err != nil {
		return w, err
	}
	w.Forwards, err = r.Store.Forwards(ctx, in, "")
	return w, err
}

// holder returns the instance of a scope that has an address in a network, and the place of its NIC.
func (r *router) holder(ctx context.Context, in seedbed.Scope, network string, a netip.Addr) (
	i seedbed.Instance, nic int, ok bool, err error,
) {
	all, err := r.Store.NetworkLeases(ctx, in, network)
	if err != nil {
		return i, 0, false, err
	}
	at := slices.IndexFunc(all, func(l seedbed.NetworkLease) bool { return l.Addr == a || l.Addr6 == a })
	if at < 0 {
		return i, 0, false, nil
	}
	i, err = r.Store.InstanceByName(ctx, seedbed.ParseInstanceName(all[at].Instance))
	if errors.Is(err, seedbed.ErrNotFound) { // it was removed meanwhile
		return i, 0, false, nil
	}
	nic = seedbed.NICAt(i.NICs, all[at].NIC)
	if err != nil || nic < 0 || i.NICs[nic].Network != network { // the address is kept for a NIC that a job takes there
		return i, 0, false, err
	}
	return i, nic, true, nil
}
