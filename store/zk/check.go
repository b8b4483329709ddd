package zk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// checkTimeout bounds one call of Check.
const checkTimeout = 3 * time.Second

// Check reports to the doctor command whether there is a session, which roles this member leads,
// and who the members are.
func (c *Client) Check(ctx context.Context) []seedbed.Check {
	check := seedbed.Check{Name: "coordination"}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	members, err := c.Members(ctx)
	if err != nil {
		check.Detail = fmt.Sprintf("ZooKeeper at %s does not serve, so the scheduled cleanup waits; jobs and webhooks go on (%s)",
			c.servers(), err)
		check.Hint = "start ZooKeeper (more than half of its servers) and let this host reach its client port, " +
			"or correct coordination.servers in the configuration"
		return []seedbed.Check{check}
	}
	check.OK = true
	check.Detail = fmt.Sprintf("ZooKeeper at %s, %s, members: %s", c.servers(), c.leads(), list(members))
	return []seedbed.Check{check}
}

// leads describes which roles this member leads.
func (c *Client) leads() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var roles []string
	for _, role := range slices.Sorted(maps.Keys(c.tokens)) {
		roles = append(roles, fmt.Sprintf("%s (token %s)", role, tokenName(c.tokens[role])))
	}
	if len(roles) == 0 {
		return "leads nothing"
	}
	return "leads " + strings.Join(roles, ", ")
}

func (c *Client) servers() string { return strings.Join(c.cfg.Servers, ", ") }

func list(members []seedbed.Member) string {
	if len(members) == 0 {
		return "none yet"
	}
	var names []string
	for _, m := range members {
		names = append(names, m.Node+" ("+m.Version+")")
	}
	return strings.Join(names, ", ")
}
