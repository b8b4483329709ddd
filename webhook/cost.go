package webhook

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// charges returns the cost of calls of the strings extension and of json. CEL itself would count
// one for each, whatever it reads and makes, but a sender chooses their arguments.
type charges struct{}

// charged are the functions that charges knows.
var charged = map[string]bool{
	"json": true, "split": true, "replace": true, "join": true, "substring": true, "lowerAscii": true, "upperAscii": true,
	"trim": true, "format": true, "reverse": true, "indexOf": true, "lastIndexOf": true, "strings.quote": true,
}

// CallCost implements interpreter.ActualCostEstimator.
func (charges) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	if !charged[function] {
		return nil
	}
	cost := 1 + weight(result)
	for _, a := range args {
		cost += weight(a)
	}
	return &cost
}

// weight returns one for ten bytes of text, as CEL counts, and one for each element of a list.
func weight(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case traits.Lister:
		if n, ok := v.Size().(types.Int); ok {
			return uint64(n)
		}
	}
	return 0
}

// checkGrowth refuses an expression that multiplies two texts of the sender, which would fill the
// memory before its cost is counted.
func checkGrowth(tree *cel.Ast) (id int64, problem string) {
	written := func(e celast.Expr) bool { return e.Kind() == celast.LiteralKind || e.Kind() == celast.ListKind }
	celast.PreOrderVisit(tree.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if problem != "" || e.Kind() != celast.CallKind || !e.AsCall().IsMemberFunction() || written(e.AsCall().Target()) {
			return
		}
		switch args := e.AsCall().Args(); {
		case e.AsCall().FunctionName() == "replace" && len(args) > 1 && !written(args[1]):
			id, problem = e.ID(), "the text and its replacement both come from the sender: write one of them in the rule"
		case e.AsCall().FunctionName() == "join" && len(args) > 0 && !written(args[0]):
			id, problem = e.ID(), "the list and its separator both come from the sender: write one of them in the rule"
		}
	}))
	return id, problem
}
