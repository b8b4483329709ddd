package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"seedbed"
)

// event is a delivery as the rules of a hook see it.
type event struct {
	headers map[string]string
	query   map[string]string
	body    any
}

// rules are a hook's compiled expressions. A nil program means that the hook has no such
// expression.
type rules struct{ when, mapping cel.Program }

// maxCost bounds what one expression may do with one delivery.
const maxCost = 1_000_000

// environment is what the expressions can use: headers and query by lower-case name and name, the
// decoded body, CEL's own functions with its optional values and strings, and json(text), which
// decodes a JSON text inside the body.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("query", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("body", cel.DynType),
		cel.OptionalTypes(),
		ext.Strings(),
		cel.Function("json", cel.Overload("json_string", []*cel.Type{cel.StringType}, cel.DynType, cel.UnaryBinding(func(v ref.Val) ref.Val {
			text, ok := v.Value().(string)
			if !ok {
				return types.NewErr("json: expected a string")
			}
			decoded, err := decodeJSON([]byte(text))
			if err != nil {
				return types.NewErr("json: %v", err)
			}
			return types.DefaultTypeAdapter.NativeToValue(decoded)
		}))),
	)
})

// compile checks and prepares both expressions; either may be empty.
func compile(when, mapping string) (r rules, err error) {
	if r.when, err = compileOne("when", when, checkWhen); err != nil {
		return rules{}, err
	}
	if r.mapping, err = compileOne("mapping", mapping, checkMapping); err != nil {
		return rules{}, err
	}
	return r, nil
}

func compileOne(name, text string, check func(*cel.Ast) (int64, string)) (cel.Program, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxRule {
		return nil, invalid("%s has %d bytes: expected at most %d", name, len(text), maxRule)
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	tree, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		e := issues.Errors()[0]
		return nil, invalid("%s: line %d, column %d: %s", name, e.Location.Line(), e.Location.Column()+1, e.Message)
	}
	id, problem := check(tree)
	if problem == "" {
		id, problem = checkGrowth(tree)
	}
	if problem != "" {
		at := tree.NativeRep().SourceInfo().GetStartLocation(id)
		return nil, invalid("%s: line %d, column %d: %s", name, at.Line(), at.Column()+1, problem)
	}
	p, err := env.Program(tree, cel.CostTracking(charges{}), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(100),
		cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, invalid("%s: %v", name, err)
	}
	return p, nil
}

func checkWhen(tree *cel.Ast) (int64, string) {
	if t := tree.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return tree.NativeRep().Expr().ID(), "it gives " + t.String() + ": expected true or false"
	}
	return 0, ""
}

func (e event) variables() map[string]any {
	return map[string]any{"headers": e.headers, "query": e.query, "body": e.body}
}

// matches returns the result of when for e. Without when, everything matches.
func (r rules) matches(ctx context.Context, e event) (bool, error) {
	if r.when == nil {
		return true, nil
	}
	v, _, err := r.when.ContextEval(ctx, e.variables())
	if err != nil {
		return false, ruleError("when", err)
	}
	matched, ok := v.Value().(bool)
	if !ok {
		return false, invalid("when gave %s: expected true or false", v.Type().TypeName())
	}
	return matched, nil
}

// request returns the result of the mapping for e.
func (r rules) request(ctx context.Context, e event) (payload, error) {
	v, _, err := r.mapping.ContextEval(ctx, e.variables())
	if err != nil {
		return payload{}, ruleError("mapping", err)
	}
	given, err := plain(v)
	if err != nil {
		return payload{}, ruleError("mapping", err)
	}
	m, ok := given.(map[string]any)
	if !ok {
		return payload{}, invalid("mapping gave %s: expected a map", v.Type().TypeName())
	}
	var p payload
	for key, v := range m {
		member, known := memberOf(key)
		switch {
		case !known:
			return p, invalid("mapping gave %q: expected %s", seedbed.Clip(key), memberNames())
		case v == nil: // as if the key were absent
		case !member.set(&p, v):
			return p, invalid("mapping: %s is of another type: expected %s", key, member.want)
		}
	}
	return p, nil
}

// ruleError returns the error, for the sender and the history, of an expression that failed on a
// delivery.
func ruleError(name string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return seedbed.Errorf(seedbed.ErrUnavailable, "%s: %v", name, err)
	}
	return invalid("%s: %s", name, seedbed.Clip(err.Error()))
}
