package webhook

import (
	"errors"
	"fmt"
	"github.com/go-json-experiment/json"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"seedbed"
)

// member is one field of a request that a delivery sets, in its body or by a mapping.
type member struct {
	name string
	// want describes its value, for messages. kinds are the CEL types of the value, except dyn.
	want  string
	kinds []types.Kind
	// set stores a value as JSON decodes it, except that whole numbers may be int64. It returns
	// false for a value of another type.
	set func(p *payload, v any) bool
	// check checks the value itself; nil if any value of the type is well-formed.
	check func(v any) error
}

// members are all members, in the order in which messages name them.
var members = []member{
	stringMember("action", func(p *payload) *string { return &p.Action }, func(v any) error {
		if !slices.Contains(seedbed.Actions(), v.(string)) {
			return invalid("expected one of %s", strings.Join(seedbed.Actions(), ", "))
		}
		return nil
	}),
	stringMember("name", func(p *payload) *string { return &p.Name }, nil),
	stringMember("profile", func(p *payload) *string { return &p.Profile }, nil),
	stringMember("image", func(p *payload) *string { return &p.Image }, nil),
	{name: "params", want: "a map", kinds: []types.Kind{types.MapKind}, set: func(p *payload, v any) (ok bool) {
		p.Params,
			ok = v.(map[string]any)
		return ok
	}},
	stringMember("node", func(p *payload) *string { return &p.Node }, nil),
	{
		name: "network", want: "a string or, with network-add and network-set, a map", kinds: []types.Kind{types.StringKind, types.MapKind},
		set: func(p *payload, v any) bool {
			p.Network = v
			_, isMap := v.(map[string]any)
			_, isText := v.(string)
			return isMap || isText
		},
	},
	{name: "nics", want: "a list of maps", kinds: []types.Kind{types.ListKind}, set: func(p *payload, v any) bool {
		var err error
		p.NICs, err = parseNICs(v)
		return err == nil || !errors.Is(err, errNoList)
	}, check: func(v any) error {
		_, err := parseNICs(v)
		return err
	}},
	{name: "security_groups", want: "a list of strings", kinds: []types.Kind{types.ListKind}, set: func(p *payload, v any) bool {
		list, ok := v.([]any)
		p.Groups = make([]string, len(list))
		for i, v := range list {
			name, isText := v.(string)
			p.Groups[i], ok = name, ok && isText
		}
		return ok
	}},
	{name: "volume", want: "a map", kinds: []types.Kind{types.MapKind}, set: func(p *payload, v any) (ok bool) {
		p.Volume, ok = v.(map[string]any)
		return ok
	}},
	stringMember("on_failure", func(p *payload) *string { return &p.OnFailure }, func(v any) error {
		_, err := seedbed.ParseOnFailure(v.(string))
		return err
	}),
	{
		name: "priority", want: "a string or a whole number", kinds: []types.Kind{types.StringKind, types.IntKind, types.UintKind},
		set: func(p *payload, v any) bool { p.Priority = v; _, ok := priorityText(v); return ok },
		check: func(v any) error {
			text, _ := priorityText(v)
			_, err := seedbed.ParsePriority(text)
			return err
		},
	},
	stringMember("after", func(p *payload) *string { return &p.After }, nil),
	boolMember("hold", func(p *payload) **bool { return &p.Hold }),
	boolMember("protected", func(p *payload) **bool { return &p.Protected }),
	stringMember("expires", func(p *payload) *string { return &p.Expires }, nil),
	stringMember("at_expiry", func(p *payload) *string { return &p.AtExpiry }, nil),
	stringMember("instance", func(p *payload) *string { return &p.Instance }, nil),
	{name: "nic", want: "a whole number", kinds: []types.Kind{types.IntKind, types.UintKind}, set: func(p *payload, v any) bool {
		whole, ok := v.(int64)
		index := int(whole)
		p.NIC = &index
		return ok
	}},
}

// errNoList marks a value that is not a list.
var errNoList = errors.New("no list")

// parseNICs parses the member nics, each with network, addr, secondary, secondary_count, secondary_count6, mac, security_groups,
// bandwidth_in and bandwidth_out, which are all optional.
func parseNICs(v any) ([]seedbed.NICRequest, error) {
	if _, ok := v.([]any); !ok {
		return nil, errNoList
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	nics := []seedbed.NICRequest{}
	if err := json.Unmarshal(text, &nics, json.RejectUnknownMembers(true)); err != nil {
		return nil, invalid("expected maps with network, addr, secondary, secondary_count, secondary_count6, mac, security_groups, bandwidth_in "+
			"and bandwidth_out: %s", seedbed.Clip(err.Error()))
	}
	return nics, nil
}

func stringMember(name string, of func(*payload) *string, check func(any) error) member {
	return member{name: name, want: "a string", kinds: []types.Kind{types.StringKind}, check: check, set: func(p *payload, v any) bool {
		text, ok := v.(string)
		*of(p) = text
		return ok
	}}
}

func boolMember(name string, of func(*payload) **bool) member {
	return member{name: name, want: "true or false", kinds: []types.Kind{types.BoolKind}, set: func(p *payload, v any) bool {
		truth, ok := v.(bool)
		*of(p) = &truth
		return ok
	}}
}

// priorityText returns a priority as text for seedbed.ParsePriority.
func priorityText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case int64, uint64:
		return fmt.Sprint(v), true
	case float64:
		return fmt.Sprintf("%.0f", v), v == math.Trunc(v)
	}
	return "", false
}

func memberOf(name string) (member, bool) {
	i := slices.IndexFunc(members, func(m member) bool { return m.name == name })
	if i < 0 {
		return member{}, false
	}
	return members[i], true
}

// memberNames returns all names, for messages.
func memberNames() string {
	var names []string
	for _, m := range members {
		names = append(names, m.name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// checkMapping checks what is known about a mapping before it runs: its keys, the types of their
// values, and literal values.
func checkMapping(tree *cel.Ast) (int64, string) {
	root := tree.NativeRep().Expr()
	if t := tree.OutputType(); t.Kind() != types.MapKind && t.Kind() != types.DynKind {
		return root.ID(), "it gives " + t.String() + ": expected a map with " + memberNames()
	}
	if root.Kind() != celast.MapKind {
		return 0, ""
	}
	for _, e := range root.AsMap().Entries() {
		entry := e.AsMapEntry()
		if entry.Key().Kind() != celast.LiteralKind {
			continue
		}
		key := entry.Key().AsLiteral().Value()
		name, _ := key.(string)
		m, known := memberOf(name)
		if !known {
			return entry.Key().ID(), fmt.Sprintf("key %v is unknown: expected %s", key, memberNames())
		}
		if problem := m.problem(entry, tree); problem != "" {
			return entry.Value().ID(), problem
		}
	}
	return 0, ""
}

// problem returns what is wrong with the value of a mapping for the member; empty if nothing is.
func (m member) problem(entry celast.MapEntry, tree *cel.Ast) string {
	value := entry.Value()
	t := tree.NativeRep().GetType(value.ID())
	if t != nil && t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type" && len(t.Parameters()) == 1 {
		t = t.Parameters()[0]
	}
	if t == nil || t.Kind() == types.DynKind || t.Kind() == types.NullTypeKind {
		return ""
	}
	if !slices.Contains(m.kinds, t.Kind()) {
		return fmt.Sprintf("%s is %s: expected %s", m.name, t, m.want)
	}
	if value.Kind() != celast.LiteralKind || m.check == nil {
		return ""
	}
	given, err := plain(value.AsLiteral())
	if err == nil {
		err = m.check(given)
	}
	if err != nil {
		return fmt.Sprintf("%s: %v", m.name, err)
	}
	return ""
}
