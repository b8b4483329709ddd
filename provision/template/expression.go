package template

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"seedbed"
)

// maxCost bounds what one expression may do, in CEL's units: about one per operation.
const maxCost = 10000

// variables are the names of fixed type; param.NAME and tag.NAME are besides them.
var variables = map[string]*cel.Type{
	"vm.name": cel.StringType, "vm.id": cel.StringType, "vm.uuid": cel.StringType,
	"vm.profile": cel.StringType, "vm.image": cel.StringType, "vm.node": cel.StringType, "vm.network": cel.StringType,
	"vm.mac": cel.StringType, "vm.ip": cel.StringType,
	"vm.number": cel.IntType, "vm.vcpus": cel.IntType, "vm.memory": cel.IntType,
	"region": cel.StringType, "zone": cel.StringType,
}

// Names are the names that an expression may read, for messages and manuals.
func Names() []string {
	names := []string{"param.NAME", "tag.NAME"}
	for n := range variables {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// environment is CEL with our names and functions. It has no macro that loops.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.ClearMacros(), cel.Macros(cel.HasMacro),
		cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(64),
		cel.Variable("param", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("tag", cel.MapType(cel.StringType, cel.StringType)),
		text("lower", strings.ToLower),
		text("upper", strings.ToUpper),
		text("base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
		text("json", func(s string) string {
			b, _ := json.Marshal(s) // a string always encodes
			return string(b)
		}),
	}
	for name, kind := range variables {
		options = append(options, cel.Variable(name, kind))
	}
	return cel.NewEnv(options...)
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

// compile reads an expression with its brackets, and notes the params that it reads.
func (t *Template) compile(source string) (part, error) {
	env, err := environment()
	if err != nil {
		return part{}, err
	}
	p := part{source: source, integer: source[1] == '('}
	inner := source[2 : len(source)-1]
	if strings.TrimSpace(inner) == "" {
		return part{}, errors.New("is empty")
	}
	parsed, issues := env.Parse(inner)
	if issues.Err() != nil {
		return part{}, errors.New("is no expression")
	}
	if err := t.noteNames(parsed.NativeRep()); err != nil {
		return part{}, err
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return part{}, fmt.Errorf("is no expression that works: %s", firstLine(issues))
	}
	out := checked.OutputType()
	if p.integer && !out.IsExactType(cel.IntType) && !out.IsExactType(cel.DynType) {
		return part{}, fmt.Errorf("gives %s: want an integer in $(…), and ${…} for anything else", out)
	}
	if !slices.ContainsFunc([]*cel.Type{cel.IntType, cel.StringType, cel.BoolType, cel.DynType}, out.IsExactType) {
		return part{}, fmt.Errorf("gives %s: want a string, an integer or true or false", out)
	}
	p.program, err = env.Program(checked, cel.CostLimit(maxCost))
	return p, err
}

func firstLine(issues *cel.Issues) string {
	if all := issues.Errors(); len(all) > 0 {
		return all[0].Message
	}
	return issues.Err().Error()
}

// noteNames refuses unknown names, with those that there are, and collects the params.
func (t *Template) noteNames(tree *ast.AST) error {
	var unknown string
	var visit func(e ast.Expr)
	visit = func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind, ast.IdentKind:
			name := dotted(e)
			if name == "" {
				visit(e.AsSelect().Operand())
				return
			}
			head, rest, _ := strings.Cut(name, ".")
			field, _, deeper := strings.Cut(rest, ".")
			switch {
			case head == "param" && field != "":
				t.reads[field] = true
			case head == "tag" && field != "" && !deeper:
			case variables[name] != nil:
			case unknown == "":
				unknown = name
			}
		case ast.CallKind:
			call := e.AsCall()
			if call.IsMemberFunction() {
				visit(call.Target())
			}
			if call.FunctionName() == "_[_]" && len(call.Args()) == 2 && t.noteIndex(call.Args()) {
				return
			}
			for _, a := range call.Args() {
				visit(a)
			}
		case ast.ListKind:
			for _, el := range e.AsList().Elements() {
				visit(el)
			}
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				visit(entry.AsMapEntry().Key())
				visit(entry.AsMapEntry().Value())
			}
		}
	}
	visit(tree.Expr())
	if unknown != "" {
		return fmt.Errorf("reads %s, which is unknown: want %s", quote(unknown), strings.Join(Names(), ", "))
	}
	return nil
}

// noteIndex takes param["NAME"] and tag["NAME"], for names that are no identifiers.
func (t *Template) noteIndex(args []ast.Expr) bool {
	if args[0].Kind() != ast.IdentKind || args[1].Kind() != ast.LiteralKind {
		return false
	}
	key, ok := args[1].AsLiteral().Value().(string)
	if !ok {
		return false
	}
	switch args[0].AsIdent() {
	case "param":
		t.reads[key] = true
		return true
	case "tag":
		return true
	}
	return false
}

// dotted is an expression such as vm.name as text; empty when it is none.
func dotted(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		if head := dotted(e.AsSelect().Operand()); head != "" {
			return head + "." + e.AsSelect().FieldName()
		}
	}
	return ""
}

// Values are what expressions read.
type Values struct {
	Guest seedbed.Guest
	// Params are the request's: strings, whole numbers and booleans.
	Params map[string]any
}

// activation has the values by their names.
func (v Values) activation() map[string]any {
	g := v.Guest
	act := map[string]any{
		"vm.name": g.Name, "vm.id": g.ServedID(), "vm.uuid": string(g.ID), "vm.profile": g.Profile, "vm.image": g.Image, "vm.node": g.Node,
		"vm.vcpus": int64(g.VCPUs), "vm.memory": int64(g.Memory), "vm.mac": "", "vm.ip": "", "vm.network": "",
		"region": g.Region, "zone": g.Zone, "param": v.Params, "tag": g.Tags,
	}
	if v.Params == nil {
		act["param"] = map[string]any{}
	}
	if g.Tags == nil {
		act["tag"] = map[string]string{}
	}
	if len(g.NICs) > 0 {
		nic := g.NICs[0]
		act["vm.mac"], act["vm.network"] = nic.MAC.String(), nic.Network
		if nic.Addr.IsValid() {
			act["vm.ip"] = nic.Addr.String()
		}
	}
	if n, ok := number(g.Name); ok {
		act["vm.number"] = n
	}
	return act
}
