package netcfg

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// fewPorts is the number of ports up to which the elements are always listed and compared, which
// takes milliseconds. With more ports, a matching digest is trusted until Verify writes the
// elements again.
const fewPorts = 2000

// filters is what a Manager knows of the tables in the kernel.
type filters struct {
	// plan is what this process last wrote; nil before the first time.
	plan *plan
	// generation is the generation of the ruleset after that; 0 if unknown, for example because
	// another program wrote at the same time.
	generation uint32
	// believed is true while the elements are assumed correct only because of their digest.
	believed bool
}

// applyRules makes the tables match the plan, in one atomic batch. Correct rules are not
// rewritten, and only the difference of the elements is written. With thorough, the elements in the
// kernel are compared one by one, or all written again if they are many, whatever is known about
// them.
func (m *Manager) applyRules(p *plan, thorough bool) error {
	c, err := dialNFT(len(p.ports))
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	before, err := generation()
	if err != nil {
		return err
	}
	untouched := m.filters.plan != nil && m.filters.generation == before && before != 0
	if untouched && !thorough {
		err := m.writeDifference(c, p, before)
		if err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EBUSY) {
			return err
		}
		m.log.Warn("the filters differ from what was written; comparing them", "err", err)
	}
	existing, err := listTables(c)
	if err != nil {
		return err
	}
	b := batch{log: m.log, thorough: thorough || len(p.ports) <= fewPorts, old: m.filters.plan}
	for _, t := range p.tables() {
		if err := b.table(c, t, existing[t.family], p); err != nil {
			return fmt.Errorf("table %s: %w", tableName, err)
		}
	}
	if b.wrote {
		if err := flush(c); err != nil {
			return err
		}
	}
	return m.filters.now(p, before, b.wrote, b.believed)
}

// writeDifference is for tables that nothing has changed since this process wrote them. The
// difference of the plans is then that of the tables.
func (m *Manager) writeDifference(c *nftables.Conn, p *plan, before uint32) error {
	b := batch{log: m.log}
	old := m.filters.plan
	tables, olds := p.tables(), old.tables()
	for i, t := range tables {
		if err := b.difference(c, t, olds[i], old, p); err != nil {
			return fmt.Errorf("table %s: %w", tableName, err)
		}
	}
	if b.wrote {
		if err := flush(c); err != nil {
			m.filters = filters{}
			return err
		}
	}
	return m.filters.now(p, before, b.wrote, m.filters.believed)
}

// now records what the kernel has after a batch was sent or the tables were found correct.
func (f *filters) now(p *plan, before uint32, wrote, believed bool) error {
	after, err := generation()
	if err != nil {
		return err
	}
	want := before
	if wrote {
		want++ // each batch increments it
	}
	if after != want {
		after = 0
	}
	*f = filters{plan: p, generation: after, believed: believed}
	return nil
}

// generation returns the number of the current ruleset of the namespace, which every change by any
// program increments (NFT_MSG_GETGEN of linux/netfilter/nf_tables.h).
func generation() (uint32, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return 0, fmt.Errorf("open nftables: %w", err)
	}
	defer c.Close()
	msgs, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   make([]byte, 4), // struct nfgenmsg
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of the nftables rules: %w", err)
	}
	for _, msg := range msgs {
		if g, ok := parseGeneration(msg.Data); ok {
			return g, nil
		}
	}
	return 0, errors.New("the kernel does not report the generation of the nftables rules")
}

func parseGeneration(b []byte) (uint32, bool) {
	if len(b) < 4 {
		return 0, false
	}
	ad, err := netlink.NewAttributeDecoder(b[4:])
	if err != nil {
		return 0, false
	}
	for ad.Next() {
		if v := ad.Bytes(); ad.Type() == unix.NFTA_GEN_ID && len(v) == 4 {
			return binary.BigEndian.Uint32(v), true
		}
	}
	return 0, false
}
