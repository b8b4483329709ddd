package template

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"seedbed"
)

// Type is the type of a name.
type Type int

// The types.
const (
	String Type = iota
	Int
	Bool
)

func (t Type) cel() *cel.Type {
	switch t {
	case Int:
		return cel.IntType
	case Bool:
		return cel.BoolType
	}
	return cel.StringType
}

// TypeOf is the type of a param's values.
func TypeOf(p seedbed.Param) Type {
	switch p.Type {
	case seedbed.ParamInt, seedbed.ParamSize:
		return Int
	case seedbed.ParamBool:
		return Bool
	}
	return String
}

// Scope is the set of names that expressions may read. It is safe for concurrent use.
type Scope struct {
	env   *cel.Env
	types map[string]Type
	// open allows any param, with an unknown type; tags allows tags.
	open, tags bool
}

// documentNames are the names that documents may read in addition to params and tags.
var documentNames = map[string]Type{
	"vm.name": String, "vm.id": String, "vm.uuid": String, "vm.profile": String, "vm.image": String, "vm.node": String, "vm.network": String,
	"vm.mac": String, "vm.ip": String, "vm.number": Int, "vm.vcpus": Int, "vm.memory": Int,
	"profile.name": String, "profile.image": String, "profile.network": String, "profile.vcpus": Int,
	"profile.memory": Int, "profile.disk": Int,
	"region": String, "zone": String,
}

// base is CEL with our functions. It has no macros that loop.
var base = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.ClearMacros(), cel.Macros(cel.HasMacro),
		cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(64),
		cel.Variable("param", cel.MapType(cel.StringType, cel.DynType)),
		text("lower", strings.ToLower),
		text("upper", strings.ToUpper),
		text("base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
		text("json", func(s string) string {
			b, _ := json.Marshal(s) // a string always encodes
			return string(b)
		}),
	)
})

// text is a function from string to string.
func text(name string, f func(string) string) cel.EnvOption {
	return cel.Function(name, cel.Overload(name+"_string", []*cel.Type{cel.StringType}, cel.StringType,
		cel.UnaryBinding(func(v ref.Val) ref.Val {
			s, ok := v.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(v)
			}
			return types.String(f(string(s)))
		})))
}

// anyParam is the scope of documents whose profile does not declare params.
var anyParam = sync.OnceValues(func() (*Scope, error) { return newScope(documentNames, nil, true) })

// DocumentScope returns the scope of a profile's documents. If params is nil, they may read any
// param, with the type that the request gives it; otherwise only these.
func DocumentScope(params []seedbed.Param) (*Scope, error) {
	if params == nil {
		return anyParam()
	}
	return newScope(documentNames, params, true)
}

// FieldScope returns the scope of a profile's fields: its params, and names.
func FieldScope(params []seedbed.Param, names map[string]Type) (*Scope, error) {
	if params == nil {
		params = []seedbed.Param{}
	}
	return newScope(names, params, false)
}

func newScope(names map[string]Type, params []seedbed.Param, tags bool) (*Scope, error) {
	env, err := base()
	if err != nil {
		return nil, err
	}
	s := &Scope{types: maps.Clone(names), open: params == nil, tags: tags}
	for _, p := range params {
		s.types["param."+p.Name] = TypeOf(p)
	}
	var options []cel.EnvOption
	if tags {
		options = append(options, cel.Variable("tag", cel.MapType(cel.StringType, cel.StringType)))
	}
	for name, t := range s.types {
		options = append(options, cel.Variable(name, t.cel()))
	}
	s.env, err = env.Extend(options...)
	return s, err
}

// Names returns the names that an expression may read, for messages and manuals.
func (s *Scope) Names() []string {
	names := slices.Collect(maps.Keys(s.types))
	if s.open {
		names = append(names, "param.NAME")
	}
	if s.tags {
		names = append(names, "tag.NAME")
	}
	slices.Sort(names)
	return names
}

// has reports whether a param may be read.
func (s *Scope) has(param string) bool {
	_, declared := s.types["param."+param]
	return s.open || declared
}
