package store

import (
	"fmt"
	"math"
	"strings"
)

// where builds the condition of a query, with its arguments.
type where struct {
	conditions []string
	args       []any
}

// and adds a condition. Each %s in it is replaced by the placeholder of the next argument.
func (w *where) and(condition string, args ...any) {
	places := make([]any, len(args))
	for i, a := range args {
		w.args = append(w.args, a)
		places[i] = fmt.Sprintf("$%d", len(w.args))
	}
	w.conditions = append(w.conditions, fmt.Sprintf(condition, places...))
}

func (w *where) String() string {
	if len(w.conditions) == 0 {
		return "1 = 1"
	}
	return strings.Join(w.conditions, " AND ")
}

// upTo returns the argument of a LIMIT; 0 means no limit.
func upTo(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}
