package netcfg

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// tableName is the name of each table.
const tableName = "seedbed"

// table is the desired state of a whole nftables table.
type table struct {
	family nftables.TableFamily
	sets   []set
	chains []chain
}

// tables returns the desired state of all tables.
func (p *plan) tables() []*table { return []*table{bridgeTable(p), inetTable(p), arpTable()} }

// set is a set or map. Its elements are key and, for a map, value, in the kernel's byte form.
type set struct {
	name   string
	key    nftables.SetDatatype
	concat bool
	value  nftables.SetDatatype // zero for a set
	// interval is whether each element is a range of keys, of which the value is the last.
	interval bool
	// of returns the element of a port, whose key begins with its tap; ok is false if the port has
	// none. It is nil for a set that does not depend on ports.
	of func(p *plan, t *port) (key, value string, ok bool)
	// secondary returns the element of a further address of a port. It is nil for a set that has none.
	secondary func(p *plan, s *secondary) (key, value string, ok bool)
	// peer returns the element of a peer. It is nil for a set that does not depend on peers.
	peer func(p *plan, q *peer) (key, value string, ok bool)
	// fixed adds the elements of a set without of and peer.
	fixed func(p *plan, add func(key, value string))
	// shared is whether ports and peers may have the same element, as while an address goes from one to another.
	shared bool
	// size bounds a set that the rules fill, which has none of them; zero for any other.
	// timeout is how long such a set keeps an element; zero if its rule decides.
	size    uint32
	timeout time.Duration
}

// chain is a chain and its rules; hook is nil for a chain that other chains jump to.
type chain struct {
	name  string
	typ   nftables.ChainType
	hook  *nftables.ChainHook
	prio  nftables.ChainPriority
	rules []rule
}

// rule is one rule. Its comment says what it is for.
type rule struct {
	what  string
	exprs exprs
}

// version identifies everything in a table except its elements. It is in the comment of every rule,
// so a listing shows whether the table is as desired.
func (t *table) version() (string, error) {
	h := sha256.New()
	for _, s := range t.sets {
		fmt.Fprintf(h, "set %s %s %t %t %s %s %d\n", s.name, s.key.Name, s.concat, s.interval, s.value.Name, s.timeout, s.size)
	}
	for _, c := range t.chains {
		fmt.Fprintf(h, "chain %s %s %d\n", c.name, c.typ, c.prio)
		if c.hook != nil {
			fmt.Fprintf(h, "hook %d\n", *c.hook)
		}
		for _, r := range c.rules {
			fmt.Fprintf(h, "rule %s\n", r.what)
			for _, e := range r.exprs {
				b, err := expr.Marshal(byte(t.family), e)
				if err != nil {
					return "", fmt.Errorf("rule %q: %w", r.what, err)
				}
				h.Write(b)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// comment returns the comment of a rule, as a listing shows it.
func (r rule) comment(version string) string { return r.what + " [" + version + "]" }
