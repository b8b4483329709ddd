package guestplane

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/beevik/ntp"

	"seedbed"
	"seedbed/netcfg/clock"
)

const (
	// checkAfter is how long after the start the node is first checked for changes by others, and
	// lookEvery is the interval of further checks.
	checkAfter = 2 * time.Second
	checkEvery = 30 * time.Second
	// verifyAfter is how long after the start the filters of an earlier process are verified.
	// verifyEvery is the interval of further verifications, if rules were changed.
	verifyAfter = time.Minute
	verifyEvery = 10 * time.Minute
)

// Upkeep repairs what others change on the node (a sysctl, an address, a rule) until ctx ends. It
// logs each new problem with its fix. Nothing that Seedbed does waits for it: the state comes by the feed, and interfaces, and
// addresses of this node, by events of the kernel (Follow). But the kernel tells nobody of a sysctl, so all is compared at an
// interval, which also finds what an event did not bring.
func (p *Plane) Upkeep(ctx context.Context) error {
	look := time.NewTimer(checkAfter)
	defer look.Stop()
	verify := time.NewTimer(verifyAfter)
	defer verify.Stop()
	logged := map[string]string{}
	for {
		what, do := "restore the network", p.restore
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			look.Reset(checkEvery)
		case <-verify.C:
			what, do = "verify the filters", p.verify
			verify.Reset(verifyEvery)
		}
		check := seedbed.Check{Name: what, OK: true}
		if err := do(ctx); err != nil {
			check.OK, check.Detail, check.Hint = false, err.Error(), "it is retried automatically"
		}
		p.askFloating(ctx)
		if ctx.Err() == nil {
			p.logFailures(append(p.Checks(ctx), check), logged)
		}
	}
}

func (p *Plane) verify(ctx context.Context) error {
	defer returnMemory()
	return p.settle(func() error { return p.kernel.Verify(ctx) })
}

// logFailures logs failing checks, each only once until it passes, fails differently, or is not among them.
func (p *Plane) logFailures(checks []seedbed.Check, logged map[string]string) {
	maps.DeleteFunc(logged, func(name, _ string) bool {
		return !slices.ContainsFunc(checks, func(c seedbed.Check) bool { return c.Name == name })
	})
	for _, c := range checks {
		switch {
		case c.OK:
			delete(logged, c.Name)
		case logged[c.Name] != c.Detail:
			logged[c.Name] = c.Detail
			p.log.Warn("check failed", "check", c.Name, "problem", c.Detail, "fix", c.Hint)
		}
	}
}

// Checks returns the kernel's part of the guest plane's health, and the checks of its port.
func (p *Plane) Checks(ctx context.Context) []seedbed.Check {
	return slices.Concat(p.host.Check(ctx), p.directChecks(), p.portChecks(), p.floatingChecks())
}

// directChecks report the uplinks of direct networks that this node does not have.
func (p *Plane) directChecks() (checks []seedbed.Check) {
	for _, n := range p.lastState().Networks {
		if n.Kind.Served() {
			continue
		}
		c := seedbed.Check{Name: "network " + n.Name, OK: true}
		on := cmp.Or(p.uplinks[n.Uplink], n.Uplink)
		c.Detail = "its guests are at interface " + on
		if _, err := ifindex(on); err != nil {
			c.OK, c.Detail = false, "interface "+on+", its uplink, does not exist on this node"
			c.Hint = "make it, or name the node's own in network.uplinks; until then, its guests do not start here"
		}
		checks = append(checks, c)
	}
	return checks
}

// portChecks report what keeps an address of the metadata service or the resolver from being bound, and whether the
// services of the node can answer. An address that is on every bridge has the same holder on all of them.
func (p *Plane) portChecks() []seedbed.Check {
	networks, _, _ := p.networks()
	if len(networks) == 0 {
		return nil
	}
	var checks []seedbed.Check
	for _, addr := range p.addrs(0)[:2] {
		if addr.Addr().Is4() || p.host.HasIPv6(networks[0].Bridge) {
			checks = append(checks, p.portCheck(addr, redirectHint))
		}
	}
	i := slices.IndexFunc(networks, seedbed.Network.ResolvesAtGateway)
	if i < 0 {
		i = slices.IndexFunc(networks, seedbed.Network.Resolves)
	}
	if i >= 0 {
		for _, addr := range resolverAddrs(networks[i]) {
			checks = append(checks, p.portCheck(addr, dnsHint))
		}
		checks = append(checks, p.forwarderCheck())
	}
	if slices.ContainsFunc(networks, seedbed.Network.KeepsTime) {
		checks = append(checks, timeCheck())
	}
	return checks
}

// forwarderCheck reports whether the resolver has others to ask.
func (p *Plane) forwarderCheck() seedbed.Check {
	servers, err := p.forwarder.Servers()
	if err != nil {
		return seedbed.Check{Name: "DNS forwarders", Detail: err.Error(),
			Hint: "guests find no names outside of their network: list resolvers there, or in network.forwarders of seedbed.yaml"}
	}
	return seedbed.Check{Name: "DNS forwarders", OK: true,
		Detail: fmt.Sprintf("names outside of the networks are asked of %s", joined(servers))}
}

// timeWait is how long the node's time server may take to answer the node itself.
const timeWait = time.Second

// timeCheck reports whether the node's time server knows the time and tells it to the guest plane, which passes it on to guests.
func timeCheck() seedbed.Check {
	check := seedbed.Check{Name: fmt.Sprintf("time server for %s", seedbed.TimeAddr)}
	answer, err := ntp.QueryWithOptions(clock.Server.String(), ntp.QueryOptions{Timeout: timeWait})
	if err != nil {
		check.Detail = fmt.Sprintf("%s does not answer: %v", clock.Server.Addr(), err)
		check.Hint = fmt.Sprintf("run chrony on this node, with a line \"allow %s\" in chrony.conf, or give the networks other time "+
			"servers (seedbed network set NAME --ntp ADDRESS)", clock.Server.Addr())
		return check
	}
	if err := answer.Validate(); err != nil {
		check.Detail = fmt.Sprintf("it does not know the time: %v", err)
		check.Hint = "give it time servers of its own that it can reach (chronyc sources)"
		return check
	}
	check.OK, check.Detail = true, fmt.Sprintf("it tells the time, at stratum %d", answer.Stratum)
	return check
}

// portCheck reports whether another program keeps an address from being bound.
func (p *Plane) portCheck(addr netip.AddrPort, hint string) seedbed.Check {
	check := seedbed.Check{Name: fmt.Sprintf("port %s", addr), OK: true, Detail: "no other program uses it"}
	holder, err := p.host.PortHolder(addr)
	if err != nil {
		check.OK, check.Detail = false, err.Error()
	} else if holder != "" {
		check.OK, check.Detail, check.Hint = false, "it is held by "+holder, hint
	}
	return check
}

func joined(servers []netip.AddrPort) string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr().String()
	}
	return strings.Join(all, ", ")
}
