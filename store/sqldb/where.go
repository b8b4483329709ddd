package sqldb

import (
	"fmt"
	"math"
	"strings"

	"seedbed"
)

// Where builds the condition of a query, with its arguments.
type Where struct {
	conditions []string
	Args       []any
}

// And adds a condition. Each %s in it is replaced by the placeholder of the next argument.
func (w *Where) And(condition string, args ...any) {
	places := make([]any, len(args))
	for i, a := range args {
		w.Args = append(w.Args, a)
		places[i] = fmt.Sprintf("$%d", len(w.Args))
	}
	w.conditions = append(w.conditions, fmt.Sprintf(condition, places...))
}

// InScope returns the condition that a row of a table with a column project is in a scope.
func InScope(s seedbed.Scope) *Where {
	w := &Where{}
	if project, one := s.One(); one {
		w.And("project = %s", project)
	}
	return w
}

func (w *Where) String() string {
	if len(w.conditions) == 0 {
		return "1 = 1"
	}
	return strings.Join(w.conditions, " AND ")
}

// UpTo returns the argument of a LIMIT; 0 means no limit.
func UpTo(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}
