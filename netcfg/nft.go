package netcfg

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// batchBuffer is room for one batch of the elements of some ten thousand ports.
const batchBuffer = 16 << 20

// elementsPerMessage keeps a list of elements below the 64 KiB of a netlink attribute.
const elementsPerMessage = 256

func dialNFT() (*nftables.Conn, error) {
	big := func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(batchBuffer), c.SetReadBuffer(batchBuffer))
	}
	c, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(big))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return c, nil
}

// applyRules makes both tables what the plan needs, in one atomic batch. A
// table whose rules are right only has the difference of its elements written.
func (m *Manager) applyRules(p *plan) error {
	c, err := dialNFT()
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	existing, err := listTables(c)
	if err != nil {
		return err
	}
	for _, t := range []*table{bridgeTable(p), inetTable(p)} {
		if err := m.planTable(c, t, existing[t.family]); err != nil {
			return fmt.Errorf("table %s: %w", tableName, err)
		}
	}
	return flush(c)
}

// flush sends the batch; an empty one is not sent.
func flush(c *nftables.Conn) error {
	err := c.Flush()
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return seedbed.Errorf(seedbed.ErrUnavailable, "this kernel lacks what the nftables rules need (%v): want nftables with the bridge and inet families and NAT", err)
	}
	if err != nil {
		return fmt.Errorf("write nftables rules: %w", err)
	}
	return nil
}

// listTables tells in which families our table exists.
func listTables(c *nftables.Conn) (map[nftables.TableFamily]bool, error) {
	all, err := c.ListTables()
	if err != nil {
		return nil, fmt.Errorf("list nftables tables: %w", err)
	}
	out := map[nftables.TableFamily]bool{}
	for _, t := range all {
		if t.Name == tableName {
			out[t.Family] = true
		}
	}
	return out, nil
}

func (m *Manager) planTable(c *nftables.Conn, t *table, exists bool) error {
	version, err := t.version()
	if err != nil {
		return err
	}
	ref := &nftables.Table{Name: tableName, Family: t.family}
	if exists {
		same, err := t.sameRules(c, ref, version)
		if err != nil {
			return err
		}
		if same {
			return t.updateSets(c, ref)
		}
		c.DelTable(ref)
	}
	m.log.Info("nftables rules written", "family", familyName(t.family), "version", version, "replaced", exists)
	return t.create(c, ref, version)
}

// sameRules lists the chains of the kernel's table and compares the comments of their rules.
func (t *table) sameRules(c *nftables.Conn, ref *nftables.Table, version string) (bool, error) {
	for _, ch := range t.chains {
		have, err := c.GetRules(ref, &nftables.Chain{Name: ch.name})
		if err != nil {
			return false, fmt.Errorf("list chain %s: %w", ch.name, err)
		}
		same := slices.EqualFunc(ch.rules, have, func(want rule, have *nftables.Rule) bool {
			got, ok := userdata.GetString(have.UserData, userdata.TypeComment)
			return ok && got == want.comment(version)
		})
		if !same {
			return false, nil
		}
	}
	// A chain without rules looks like one that is missing, and says nothing of its sets.
	chains, err := c.ListChainsOfTableFamily(t.family)
	if err != nil {
		return false, fmt.Errorf("list chains: %w", err)
	}
	chains = slices.DeleteFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name != tableName })
	sets, err := c.GetSets(ref)
	if err != nil {
		return false, fmt.Errorf("list sets: %w", err)
	}
	return len(chains) == len(t.chains) && len(sets) == len(t.sets), nil
}

// create adds the table with everything in it to the batch.
func (t *table) create(c *nftables.Conn, ref *nftables.Table, version string) error {
	c.AddTable(ref)
	for i := range t.sets {
		s := t.sets[i].nft(ref)
		s.ID = uint32(i + 1)
		if err := c.AddSet(s, nil); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
		if err := inBlocks(elements(t.sets[i].elements), func(e []nftables.SetElement) error { return c.SetAddElements(s, e) }); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	policy := nftables.ChainPolicyAccept
	added := make([]*nftables.Chain, len(t.chains))
	for i, ch := range t.chains {
		added[i] = &nftables.Chain{Name: ch.name, Table: ref}
		if ch.hook != nil {
			added[i].Type, added[i].Hooknum, added[i].Priority, added[i].Policy = ch.typ, ch.hook, &ch.prio, &policy
		}
		c.AddChain(added[i])
	}
	for i, ch := range t.chains {
		for _, r := range ch.rules {
			c.AddRule(&nftables.Rule{Table: ref, Chain: added[i], Exprs: r.exprs,
				UserData: userdata.AppendString(nil, userdata.TypeComment, r.comment(version))})
		}
	}
	return nil
}

func (s *set) nft(ref *nftables.Table) *nftables.Set {
	out := &nftables.Set{Table: ref, Name: s.name, KeyType: s.key, Concatenation: s.concat,
		IsMap: s.value.Bytes != 0, DataType: s.value}
	if !s.concat {
		out.KeyByteOrder = binaryutil.NativeEndian // what nft list needs to show interface names
	}
	return out
}

// updateSets adds the difference of the elements to the batch.
func (t *table) updateSets(c *nftables.Conn, ref *nftables.Table) error {
	for i := range t.sets {
		s := t.sets[i].nft(ref)
		list, err := c.GetSetElements(s)
		if err != nil {
			return fmt.Errorf("list set %s: %w", s.Name, err)
		}
		have := make(map[string]string, len(list))
		for _, e := range list {
			have[string(e.Key)] = string(e.Val)
		}
		gone, added := difference(have, t.sets[i].elements)
		if err := inBlocks(elements(gone), func(e []nftables.SetElement) error { return c.SetDeleteElements(s, e) }); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
		if err := inBlocks(elements(added), func(e []nftables.SetElement) error { return c.SetAddElements(s, e) }); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	return nil
}

// difference gives what to take from have and then to add to it to make it
// want. A key whose value changed is in both.
func difference(have, want map[string]string) (gone, added map[string]string) {
	gone, added = map[string]string{}, map[string]string{}
	for k, v := range have {
		if w, ok := want[k]; !ok || w != v {
			gone[k] = v
		}
	}
	for k, v := range want {
		if h, ok := have[k]; !ok || h != v {
			added[k] = v
		}
	}
	return gone, added
}

func elements(m map[string]string) []nftables.SetElement {
	out := make([]nftables.SetElement, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, nftables.SetElement{Key: []byte(k), Val: []byte(m[k])})
	}
	return out
}

func inBlocks(e []nftables.SetElement, each func([]nftables.SetElement) error) error {
	for block := range slices.Chunk(e, elementsPerMessage) {
		if err := each(block); err != nil {
			return err
		}
	}
	return nil
}

func familyName(f nftables.TableFamily) string {
	if f == nftables.TableFamilyBridge {
		return "bridge"
	}
	return "inet"
}
