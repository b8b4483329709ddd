package store

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/store/sqldb"
)

// nestedRules have as many ports and prefixes, each of which holds the next.
func nestedRules(t *testing.T, n int) (all []seedbed.SecurityRule) {
	t.Helper()
	for i := range n {
		r, err := seedbed.ParseSecurityRule(fmt.Sprintf("in tcp %d from 2001:db8::/%d", 1000+2*i, 60+i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// A security group, or a project, that is older than the bound on the parts of rules can be changed, unless it gets more of them.
func TestGroupsOlderThanTheirBound(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := open(t, t.TempDir()+"/seedbed.db")
	set := func(name string, rules []seedbed.SecurityRule) error {
		_, err := db.ChangeSecurityGroup(ctx, name, func(g *seedbed.SecurityGroup) error {
			g.Rules = rules
			return nil
		})
		return err
	}
	older := func(name string, rules []seedbed.SecurityRule) {
		t.Helper()
		err := db.sql.Update(ctx, "write as before", func(tx *sqldb.Tx) error {
			return sqldb.Exec(ctx, tx, `UPDATE security_group SET rules = $1 WHERE name = $2`, sqldb.AsJSON(rules), name)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	large := nestedRules(t, 60)
	do(db.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "old"}))(t)
	older("old", large)
	for what, rules := range map[string][]seedbed.SecurityRule{"the same in another order": append(slices.Clone(large[1:]), large[0]),
		"less, and still too many": large[:50]} {
		older("old", large)
		if err := set("old", rules); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	older("old", large[:50])
	if err := set("old", large[:51]); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "overlap in too many ways") {
		t.Errorf("more than before: %v", err)
	}

	// Those of a project together: 128 groups are not counted.
	for n := range 128 {
		do(db.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: fmt.Sprintf("g%d", n)}))(t)
	}
	wide := nestedRules(t, 22) // 253 parts
	for n := range 128 {
		older(fmt.Sprintf("g%d", n), wide)
	}
	if err := set("g0", wide[:21]); err != nil {
		t.Errorf("less in a project that has too many parts: %v", err)
	}
	if err := set("g1", wide); err != nil {
		t.Errorf("the same in a project that has too many parts: %v", err)
	}
	const says = `security group "g0": a node would need`
	if err := set("g0", wide); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), says) {
		t.Errorf("more in a project that has too many parts: %v", err)
	}
	older("old", nil)
	if err := set("g0", wide); err != nil {
		t.Errorf("without the group that is older than its bound: %v", err)
	}

	// The ACLs of a network make groups of its project.
	lab := seedbed.Network{Name: "lab", Bridge: "seedbed7", MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 7},
		Kind: seedbed.NetworkNAT, Prefix: netip.MustParsePrefix("10.7.0.0/24"), Gateway: netip.MustParseAddr("10.7.0.1")}
	do(db.CreateNetwork(ctx, lab))(t)
	accept := func(rules []seedbed.SecurityRule) error {
		_, err := db.ChangeNetwork(ctx, "lab", func(n *seedbed.Network) error {
			n.ACLs = []seedbed.NetworkACL{{Direction: seedbed.DirectionIn, Description: "some", Rule: "accept", Accepts: rules}}
			return nil
		})
		return err
	}
	if err := accept(large); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "overlap in too many ways") {
		t.Errorf("ACLs that overlap: %v", err)
	}
	older("old", nestedRules(t, 20)) // 210 parts
	if err := accept(wide); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), `network "lab": a node would need`) {
		t.Errorf("ACLs of a project that has too many parts then: %v", err)
	}
	older("old", nil)
	if err := accept(wide); err != nil {
		t.Error(err)
	}
	if err := set("old", nestedRules(t, 20)); err == nil {
		t.Error("the ACLs of a network do not count")
	}
}
