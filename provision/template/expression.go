package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// maxCost bounds one expression in CEL's units: about one per operation.
const maxCost = 10000

// compile compiles an expression with its brackets, and records the names that it reads.
func (t *Template) compile(source string) (part, error) {
	env := t.scope.env
	p := part{source: source, integer: source[1] == '('}
	inner := nested(source[2 : len(source)-1])
	if strings.TrimSpace(inner) == "" {
		return part{}, errors.New("is empty")
	}
	parsed, issues := env.Parse(inner)
	if issues.Err() != nil {
		return part{}, errors.New("is not an expression")
	}
	if err := t.noteNames(parsed.NativeRep()); err != nil {
		return part{}, err
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return part{}, fmt.Errorf("is not a valid expression: %s", firstLine(issues))
	}
	out := checked.OutputType()
	if p.integer && !out.IsExactType(cel.IntType) && !out.IsExactType(cel.DynType) {
		return part{}, fmt.Errorf("gives %s: expected an integer in $(…), and ${…} for anything else", out)
	}
	if !slices.ContainsFunc([]*cel.Type{cel.IntType, cel.StringType, cel.BoolType, cel.DynType}, out.IsExactType) {
		return part{}, fmt.Errorf("gives %s: expected a string, an integer or true or false", out)
	}
	p.out = out
	var err error
	p.program, err = env.Program(checked, cel.CostLimit(maxCost))
	return p, err
}

// nested replaces references inside an expression by plain brackets, so that $(1024 * ${param.gib})
// becomes $(1024 * (param.gib)). Strings are not changed.
func nested(s string) string {
	if !strings.Contains(s, "${") && !strings.Contains(s, "$(") {
		return s
	}
	b := []byte(s)
	var close []byte // what the open brackets become when they close
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"' || c == '\'':
			end := i + 1
			for end < len(b) && b[end] != c {
				if b[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(b))
			out = append(out, b[i:end]...)
			i = end - 1
		case c == '$' && i+1 < len(b) && opens(b[i+1]):
			out, close = append(out, '('), append(close, ')')
			i++
		case c == '(' || c == '[' || c == '{':
			out, close = append(out, c), append(close, map[byte]byte{'(': ')', '[': ']', '{': '}'}[c])
		case (c == ')' || c == ']' || c == '}') && len(close) > 0:
			out, close = append(out, close[len(close)-1]), close[:len(close)-1]
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

func firstLine(issues *cel.Issues) string {
	if all := issues.Errors(); len(all) > 0 {
		return all[0].Message
	}
	return issues.Err().Error()
}

// noteNames records the names that the tree reads. Its error for an unknown name lists the known
// ones.
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
			if !t.note(name) && unknown == "" {
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
		return fmt.Errorf("reads %s, which is unknown: expected %s", quote(unknown), strings.Join(t.scope.Names(), ", "))
	}
	return nil
}

// note records a name, and reports whether it is known.
func (t *Template) note(name string) bool {
	head, rest, _ := strings.Cut(name, ".")
	field, _, deeper := strings.Cut(rest, ".")
	_, known := t.scope.types[name]
	switch {
	case head == "param" && field != "" && t.scope.has(field) && (t.scope.open || !deeper):
		t.reads["param."+field] = true
		return true
	case head == "tag" && field != "" && !deeper:
		return t.scope.tags
	case known:
		t.reads[name] = true
	}
	return known
}

// noteIndex accepts param["NAME"] and tag["NAME"], for names that are not identifiers.
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
		t.reads["param."+key] = t.scope.has(key)
		return t.scope.has(key)
	case "tag":
		return t.scope.tags
	}
	return false
}

// dotted returns an expression such as vm.name as text, or "".
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
