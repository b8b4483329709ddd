package netcfg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/nftables"

	"seedbed"
)

// Cleanup removes what Apply has made: the bridges with their addresses, then the tables. If
// interfaces are attached to one of the bridges, it changes nothing and returns ErrInUse, which
// names them; with force it continues and they lose their bridge. The sysctls of the node
// (ip_forward, tcp_fwmark_accept) stay unchanged, since others may rely on them.
func (m *Manager) Cleanup(ctx context.Context, force bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rt, err := dialRoute()
	if err != nil {
		return err
	}
	defer rt.Close()
	links, err := rt.links()
	if err != nil {
		return err
	}
	bridges := (&plan{}).abandoned(links) // without a network, every managed bridge is abandoned
	if users := users(bridges, links); len(users) > 0 && !force {
		return seedbed.Errorf(seedbed.ErrInUse, "the network is in use: %s. Stop the guests and detach foreign ports first, or force it",
			strings.Join(users, "; "))
	}
	for _, l := range bridges {
		if err := rt.deleteLink(l); err != nil {
			return fmt.Errorf("remove bridge %s: %w", l.name, err)
		}
		m.log.Info("bridge removed", "bridge", l.name)
	}
	if err := m.retireUplinks(rt, &plan{}, links, true); err != nil {
		return err
	}
	m.answerRules(rt, &plan{}, nil)
	m.shaped = nil
	if err := m.ensureShapes(rt, &plan{}, links, true); err != nil {
		return err
	}
	_, floating, err := m.floating(rt, &plan{}, links)
	if err == nil {
		err = m.takeFloating(rt, floating)
	}
	if err != nil {
		return err
	}
	m.wanted, m.applied, m.filters, m.reached = nil, nil, filters{}, map[string]reached{}
	return m.removeTables()
}

// users returns, for each bridge, what is attached to it.
func users(bridges []link, links map[string]link) []string {
	var out []string
	for _, l := range bridges {
		if ports := attached(l, links); len(ports) > 0 {
			out = append(out, l.name+" has "+strings.Join(ports, ", "))
		}
	}
	return out
}

func (m *Manager) removeTables() error {
	c, err := dialNFT(0)
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	existing, err := listTables(c)
	if err != nil {
		return err
	}
	for _, f := range slices.Sorted(maps.Keys(existing)) {
		c.DelTable(&nftables.Table{Name: tableName, Family: f})
	}
	return flush(c)
}
