package netcfg

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"seedbed"
)

// batchBuffer is the buffer space for one batch of rules, and bytesPerPort that for the elements of
// one port in all sets, including their acknowledgements.
const (
	batchBuffer  = 16 << 20
	bytesPerPort = 768
)

// elementsPerMessage keeps a list of elements below the 64 KiB of a netlink attribute.
const elementsPerMessage = 512

// elementsChain holds only a rule whose comment is the digest of the elements. Nothing jumps to it.
const elementsChain = "digest"

func dialNFT(ports int) (*nftables.Conn, error) {
	size := batchBuffer + ports*bytesPerPort
	big := func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(size), c.SetReadBuffer(size))
	}
	c, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(big))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return c, nil
}

// flush sends the batch; an empty one is not sent.
func flush(c *nftables.Conn) error {
	err := c.Flush()
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return seedbed.Errorf(seedbed.ErrUnavailable,
			"this kernel lacks what the nftables rules need (%v): it must have nftables with the bridge, inet and arp families and NAT", err)
	}
	if err != nil {
		return fmt.Errorf("write nftables rules: %w", err)
	}
	return nil
}

// listTables returns the families in which Seedbed's table exists.
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

// sameRules lists the chains of the kernel's table and compares the comments of their rules.
func (t *table) sameRules(c *nftables.Conn, ref *nftables.Table, version string) (bool, error) {
	for _, ch := range t.chains {
		have, err := c.GetRules(ref, &nftables.Chain{Name: ch.name})
		if err != nil {
			return false, fmt.Errorf("list chain %s: %w", ch.name, err)
		}
		same := slices.EqualFunc(ch.rules, have, func(want rule, have *nftables.Rule) bool {
			return comment(have) == want.comment(version)
		})
		if !same {
			return false, nil
		}
	}
	// A chain without rules looks like a missing one, and does not show whether its sets are
	// correct.
	chains, err := c.ListChainsOfTableFamily(t.family)
	if err != nil {
		return false, fmt.Errorf("list chains: %w", err)
	}
	chains = slices.DeleteFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name != tableName })
	sets, err := c.GetSets(ref)
	if err != nil {
		return false, fmt.Errorf("list sets: %w", err)
	}
	return len(chains) == len(t.chains)+1 && len(sets) == len(t.sets), nil
}

func comment(r *nftables.Rule) string {
	s, _ := userdata.GetString(r.UserData, userdata.TypeComment)
	return s
}

// haveDigest returns the digest that was stored with the elements in the kernel's table; empty if
// it has none.
func (t *table) haveDigest(c *nftables.Conn, ref *nftables.Table) (string, error) {
	have, err := c.GetRules(ref, &nftables.Chain{Name: elementsChain})
	if err != nil {
		return "", fmt.Errorf("list chain %s: %w", elementsChain, err)
	}
	if len(have) != 1 {
		return "", nil
	}
	return strings.TrimPrefix(comment(have[0]), elementsComment), nil
}

const elementsComment = "elements "

// noteDigest adds to the batch what haveDigest reads.
func noteDigest(c *nftables.Conn, ref *nftables.Table, digest string) {
	ch := &nftables.Chain{Name: elementsChain, Table: ref}
	c.FlushChain(ch)
	c.AddRule(&nftables.Rule{Table: ref, Chain: ch, Exprs: []expr.Any{&expr.Counter{}},
		UserData: userdata.AppendString(nil, userdata.TypeComment, elementsComment+digest)})
}

// create adds the table with everything in it to the batch.
func (t *table) create(c *nftables.Conn, ref *nftables.Table, version string, p *plan) error {
	c.AddTable(ref)
	for i := range t.sets {
		s := t.sets[i].nft(ref)
		s.ID = uint32(i + 1)
		if err := c.AddSet(s, nil); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
		if err := t.sets[i].fill(c, s, p); err != nil {
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
	c.AddChain(&nftables.Chain{Name: elementsChain, Table: ref})
	noteDigest(c, ref, p.digest())
	return nil
}

func (s *set) nft(ref *nftables.Table) *nftables.Set {
	out := &nftables.Set{Table: ref, Name: s.name, KeyType: s.key, Concatenation: s.concat,
		IsMap: s.value.Bytes != 0, DataType: s.value, Interval: s.interval,
		Dynamic: s.size != 0, HasTimeout: s.timeout != 0, Timeout: s.timeout, Size: s.size}
	if !s.concat {
		out.KeyByteOrder = binaryutil.NativeEndian // nft list needs it to show interface names
	}
	return out
}

// fill adds all elements of a new set to the batch.
func (s *set) fill(c *nftables.Conn, to *nftables.Set, p *plan) error {
	block := make([]nftables.SetElement, 0, elementsPerMessage)
	var err error
	send := func() {
		if len(block) > 0 && err == nil {
			err = c.SetAddElements(to, block)
		}
		block = block[:0]
	}
	s.each(p, func(key, value string) {
		if block = append(block, s.element(key, value)); len(block) == elementsPerMessage {
			send()
		}
	})
	send()
	return err
}

// write adds a change of a set to the batch.
func (ch change) write(c *nftables.Conn, s *nftables.Set) error {
	for block := range slices.Chunk(ch.gone, elementsPerMessage) {
		if err := c.SetDeleteElements(s, block); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	for block := range slices.Chunk(ch.added, elementsPerMessage) {
		if err := c.SetAddElements(s, block); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	return nil
}

func familyName(f nftables.TableFamily) string {
	switch f {
	case nftables.TableFamilyBridge:
		return "bridge"
	case nftables.TableFamilyARP:
		return "arp"
	default:
		return "inet"
	}
}
