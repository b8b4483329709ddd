package rest

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) changeInstance(ctx context.Context, c *fiber.Ctx) error {
	n := c.Params("name")
	if err := seedbed.CheckInstanceName(n); err != nil {
		return err
	}
	var req wire.InstanceChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if req.Hardware != nil {
		return r.setHardware(ctx, c, req)
	}
	if len(req.Forward) > 0 || len(req.Unforward) > 0 {
		if err := server.CallerOf(c).Need(seedbed.ActionNetworkForward); err != nil {
			return err
		}
	}
	if req.Floating != nil || req.Floating6 != nil {
		if err := server.CallerOf(c).Need(seedbed.ActionAddressManage); err != nil {
			return err
		}
	}
	var err error
	var spot *seedbed.Spot
	if req.Spot != nil && string(req.Spot) != "null" {
		spot = new(seedbed.Spot)
		if err := server.Decode(req.Spot, spot); err != nil {
			return err
		}
	}
	expires := req.Expires != nil || req.Extend != "" || req.AtExpiry != ""
	if expires {
		if err := server.CallerOf(c).Need(seedbed.ActionInstancePower); err != nil {
			return err
		}
	}
	matches := func(i seedbed.Instance) error { return server.Matches(c, server.InstanceTag(i)) }
	i, err := r.changeFree(ctx, server.CallerOf(c).Instance(n), req, matches, func(i *seedbed.Instance, req wire.InstanceChange) error {
		if err := matches(*i); err != nil {
			return err
		}
		if req.Spot != nil {
			i.Spot = spot
		}
		if req.Protected != nil {
			i.Protected = *req.Protected
		}
		if req.Notes != nil {
			i.Notes = *req.Notes
		}
		if expires {
			if i.Expiry, err = changedExpiry(i.Expiry, req, time.Now()); err != nil {
				return err
			}
			if i.Expiry != nil && i.Expiry.Action == seedbed.ExpiryRemove {
				if err := server.CallerOf(c).Need(seedbed.ActionInstanceRemove); err != nil {
					return err
				}
			}
		}
		if i.Follow, err = seedbed.ParseFollow(string(req.UserData), i.Follow); err != nil {
			return err
		}
		for k, v := range req.Tags {
			if v == nil {
				delete(i.Tags, k)
			} else if i.Tags == nil {
				i.Tags = map[string]string{k: *v}
			} else {
				i.Tags[k] = *v
			}
		}
		if err := changeNICs(i, req); err != nil {
			return err
		}
		return changeOptions(i, req.Metadata)
	})
	if err != nil {
		return err
	}
	return r.tagged(ctx, c, i)
}

// changedExpiry returns the expiry that a request makes of an instance's.
func changedExpiry(e *seedbed.Expiry, req wire.InstanceChange, now time.Time) (*seedbed.Expiry, error) {
	switch {
	case req.Expires != nil && req.Extend != "":
		return nil, server.Invalid("expires and extend cannot be combined: expires says when, and extend by how much later")
	case req.Expires != nil && *req.Expires != "":
		action := req.AtExpiry
		if action == "" && e != nil {
			action = e.Action
		}
		return seedbed.ParseExpiry(*req.Expires, action, now)
	case req.Expires != nil:
		return seedbed.ParseExpiry("", req.AtExpiry, now)
	case e == nil:
		return nil, seedbed.Errorf(seedbed.ErrConflict, "it does not expire: say when with expires (seedbed vm expire NAME --at TIME)")
	}
	next := *e
	if req.Extend != "" {
		by, err := seedbed.ParseDuration(req.Extend)
		if err != nil || by <= 0 {
			return nil, server.Invalid("extend is %q: expected a duration such as 2h or 7d", seedbed.Clip(req.Extend))
		}
		if next.Over(now) {
			next.Time = now.UTC().Truncate(time.Second)
		}
		next.Time = next.Time.Add(by)
	}
	next.Action = cmp.Or(req.AtExpiry, next.Action)
	return &next, next.Check(now)
}

// draws is how often free addresses are chosen that another request gets first.
const draws = 16

// unasked is how an address is assigned that no host can be asked for.
const unasked = "addresses that are named are assigned without that by take (--take)"

// changeFree changes an instance as a request asks, after the hosts of a network that a node bridges were asked for the secondary addresses
// that the request assigns. No host is asked for an instance that does not match. change gets the request with these addresses.
func (r *router) changeFree(ctx context.Context, name seedbed.InstanceName, req wire.InstanceChange, matches func(seedbed.Instance) error,
	change func(*seedbed.Instance, wire.InstanceChange) error,
) (seedbed.Instance, error) {
	for draw := 1; ; draw++ {
		asked, err := r.probed(ctx, name, req, matches)
		if err != nil {
			return seedbed.Instance{}, err
		}
		i, err := r.Change(ctx, name, func(i *seedbed.Instance) error { return change(i, asked) })
		if !errors.Is(err, seedbed.ErrInUse) || len(asked.Assign) == len(req.Assign) || draw == draws {
			return i, err
		}
	}
}

// probed returns a request with the free secondary addresses that it asks for, if hosts which Seedbed does not know may use
// addresses of the network. It returns ErrConflict if one of them uses an address that the request assigns, and ErrUnavailable if
// they cannot be asked. It asks no host about what is taken from another NIC, whose guest would answer.
func (r *router) probed(ctx context.Context, name seedbed.InstanceName, req wire.InstanceChange, matches func(seedbed.Instance) error,
) (wire.InstanceChange, error) {
	if r.Probe == nil || req.Take || len(req.Assign) == 0 && req.AssignCount == 0 && req.AssignCount6 == 0 {
		return req, nil
	}
	inst, err := r.Store.InstanceByName(ctx, name)
	if err != nil {
		return req, err
	}
	if err := matches(inst); err != nil {
		return req, err
	}
	at, err := inst.NIC(req.NIC)
	if err != nil {
		return req, err
	}
	nic := inst.NICs[at]
	network, err := r.Store.Network(ctx, nic.Network)
	if err != nil || !network.Probed() {
		return req, err
	}
	if err := changeSecondary(&inst, &nic, req); err != nil { // what it says of the request alone
		return req, err
	}
	var asks, again []netip.Addr
	for _, a := range req.Assign {
		if slices.Contains(req.Unassign, a) { // its own guest would answer
			again = append(again, a)
		} else {
			asks = append(asks, a)
		}
	}
	asks = append(asks, seedbed.FreeAddrs(req.AssignCount, req.AssignCount6)...)
	if len(asks) > seedbed.MaxSecondary {
		return req, server.Invalid("%d addresses are assigned: expected at most %d", len(asks), seedbed.MaxSecondary)
	}
	if asks, err = r.Store.FreeSecondary(ctx, inst, inst.NICs[at], asks); err != nil || len(asks) == 0 {
		return req, err
	}
	probed, err := r.Probe(ctx, inst.Node, []seedbed.AddressProbe{{Bridge: network.Bridge, MAC: nic.MAC, Addrs: asks}})
	switch {
	case errors.Is(err, seedbed.ErrInvalid): // the worker is older, and asks no host
		r.Log.Warn("addresses are assigned that no host was asked for", "instance", inst.FullName(), "node", inst.Node, "err", err)
	case err != nil:
		return req, fmt.Errorf("ask the hosts of network %s for the addresses: %w; "+unasked, network.Name, err)
	case len(probed.Used) > 0:
		own := slices.ContainsFunc(inst.NICs, func(n seedbed.NIC) bool { return n.MAC == probed.Used[0].MAC })
		return req, probed.Used[0].Conflict(network.Name, own)
	case probed.Unasked[network.Bridge] != "":
		return req, seedbed.Errorf(seedbed.ErrUnavailable, "ask the hosts of network %s for the addresses: node %s: %s; "+unasked,
			network.Name, inst.Node, probed.Unasked[network.Bridge])
	}
	req.Assign, req.AssignCount, req.AssignCount6 = slices.Concat(again, asks), 0, 0
	return req, nil
}

// changeNICs sets the security groups, forwards, rates, secondary and floating addresses of the NICs that the request is about.
func changeNICs(i *seedbed.Instance, req wire.InstanceChange) error {
	secondary := len(req.Assign) > 0 || req.AssignCount != 0 || req.AssignCount6 != 0 || len(req.Unassign) > 0
	if req.Take && len(req.Assign) == 0 {
		return server.Invalid("take is only given with assign, which names the addresses to take")
	}
	one := len(req.Forward) > 0 || len(req.Unforward) > 0 || req.Floating != nil || req.Floating6 != nil || secondary ||
		req.BandwidthIn != nil || req.BandwidthOut != nil
	switch {
	case req.SecurityGroups == nil && !one && req.NIC == nil:
		return nil
	case req.SecurityGroups == nil && !one:
		return server.Invalid("nic is only given with security_groups, forward, unforward, assign, assign_count, assign_count6, unassign, " +
			"bandwidth_in, bandwidth_out, floating or floating6")
	}
	var nic *seedbed.NIC
	if one || req.NIC != nil {
		at, err := i.NIC(req.NIC)
		if err != nil {
			return err
		}
		nic = &i.NICs[at]
	}
	for n := range i.NICs {
		if req.SecurityGroups != nil && (req.NIC == nil || *req.NIC == i.NICs[n].Index) {
			i.NICs[n].Groups = seedbed.QualifiedAll(i.Project, *req.SecurityGroups)
		}
	}
	if !one {
		return nil
	}
	for _, l := range req.Unforward {
		at := slices.IndexFunc(nic.Forwards, func(f seedbed.Forward) bool { return f.Listen == l })
		if at < 0 {
			return seedbed.Errorf(seedbed.ErrNotFound, "NIC %d of instance %s has no forward %s", nic.Index, i.Name, l)
		}
		nic.Forwards = slices.Concat(nic.Forwards[:at], nic.Forwards[at+1:])
	}
	nic.Forwards = slices.Concat(nic.Forwards, req.Forward)
	if req.Floating != nil {
		nic.Floating = *req.Floating
	}
	if req.Floating6 != nil {
		nic.Floating6 = *req.Floating6
	}
	if req.BandwidthIn != nil {
		nic.BandwidthIn = *req.BandwidthIn
	}
	if req.BandwidthOut != nil {
		nic.BandwidthOut = *req.BandwidthOut
	}
	return changeSecondary(i, nic, req)
}

// changeSecondary sets the secondary addresses of a NIC.
func changeSecondary(i *seedbed.Instance, nic *seedbed.NIC, req wire.InstanceChange) error {
	for name, count := range map[string]int{"assign_count": req.AssignCount, "assign_count6": req.AssignCount6} {
		if count < 0 || count > seedbed.MaxSecondary {
			return server.Invalid("%s is %d: expected 0 to %d", name, count, seedbed.MaxSecondary)
		}
	}
	for _, a := range req.Unassign {
		at := slices.Index(nic.Secondary, a)
		if at < 0 {
			return seedbed.Errorf(seedbed.ErrNotFound, "NIC %d of instance %s has no secondary address %s", nic.Index, i.Name, a)
		}
		nic.Secondary = slices.Concat(nic.Secondary[:at], nic.Secondary[at+1:])
	}
	for _, a := range req.Assign {
		if seedbed.AnyFree(a) {
			return server.Invalid("assign has an empty address: assign_count and assign_count6 ask for free ones")
		}
	}
	if req.Take { // which may come twice
		req.Assign = slices.DeleteFunc(slices.Clone(req.Assign), func(a netip.Addr) bool { return slices.Contains(nic.Secondary, a) })
		nic.Takes = req.Assign
	}
	nic.Secondary = slices.Concat(nic.Secondary, req.Assign, seedbed.FreeAddrs(req.AssignCount, req.AssignCount6))
	return nil
}

// changeOptions sets the options that o has. The form of the instance-id cannot be changed here:
// cloud-init takes a new ID for a new instance and repeats its first boot.
func changeOptions(i *seedbed.Instance, o *seedbed.MetadataOptions) error {
	if o == nil {
		return nil
	}
	if err := o.Check(); err != nil {
		return err
	}
	was := i.Metadata.WithDefaults(seedbed.MetadataOptions{})
	i.Metadata = o.WithDefaults(was)
	if i.Metadata.InstanceID != was.InstanceID {
		return seedbed.Errorf(seedbed.ErrConflict,
			"instance %s has an instance-id of form %s, which cannot change: with another, cloud-init would repeat its first boot",
			i.Name, was.InstanceID)
	}
	if i.Metadata.By != was.By {
		return seedbed.Errorf(seedbed.ErrConflict, "instance %s gets its metadata by %s, which cannot change: its domain is made for it",
			i.Name, was.By)
	}
	return nil
}

// subject returns the node or the instance that the path names.
type subject func(ctx context.Context, c *fiber.Ctx) (node string, id seedbed.InstanceID, err error)

func (r *router) nodeOf(_ context.Context, c *fiber.Ctx) (string, seedbed.InstanceID, error) {
	n, err := server.NameOf(c, "node")
	return n, "", err
}

func (r *router) instanceOf(ctx context.Context, c *fiber.Ctx) (string, seedbed.InstanceID, error) {
	i, err := r.named(ctx, c)
	return "", i.ID, err
}

func (r *router) maintenance(of subject) server.Handler {
	return answer(func(ctx context.Context, c *fiber.Ctx) (any, error) {
		node, id, err := of(ctx, c)
		if err != nil {
			return nil, err
		}
		return r.Store.Maintenance(ctx, node, id)
	})
}

func (r *router) announce(of subject) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		var req wire.MaintenanceRequest
		if err := server.Receive(c, &req); err != nil {
			return err
		}
		node, id, err := of(ctx, c)
		if err != nil {
			return err
		}
		m, err := r.Store.AddMaintenance(ctx, node, id, seedbed.Maintenance{
			Code: req.Code, Description: req.Description, NotBefore: req.NotBefore, NotAfter: req.NotAfter,
		})
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusCreated, m)
	}
}

func (r *router) endMaintenance(state string) server.Handler {
	return answer(func(ctx context.Context, c *fiber.Ctx) (any, error) {
		id := c.Params("id")
		if len(id) > 64 {
			return nil, server.Invalid("maintenance event %q: expected instance-event- and 17 hexadecimal digits", seedbed.Clip(id))
		}
		return r.Store.EndMaintenance(ctx, id, state)
	})
}

// certificate answers the certificate that verifies instance identity documents.
func (r *router) certificate(ctx context.Context, c *fiber.Ctx) error {
	site, err := r.Store.Site(ctx)
	if err != nil {
		return err
	}
	if len(site.Certificate) == 0 {
		return seedbed.Errorf(seedbed.ErrNotFound, "identity documents are not signed here")
	}
	c.Set(fiber.HeaderContentType, "text/plain; charset=us-ascii")
	return c.Status(fiber.StatusOK).Send(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate}))
}
