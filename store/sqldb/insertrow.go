package sqldb

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Table is a table to which rows are added, with its columns.
type Table struct {
	// Rank orders the tables: each is written after those that it refers to, which rank lower.
	Rank int
	Into string // the table with the columns, as in "network (name, bridge)"
}

// Placeholders returns n placeholders in parentheses, numbered from first.
func Placeholders(first, n int) string {
	var b strings.Builder
	for at := range n {
		b.WriteString(", $" + strconv.Itoa(first+at))
	}
	return "(" + b.String()[2:] + ")"
}

// RowsOfOne returns n rows of one placeholder each, numbered from first.
func RowsOfOne(first, n int) string {
	var all []string
	for at := range n {
		all = append(all, Placeholders(first+at, 1))
	}
	return strings.Join(all, ", ")
}

// InsertRows returns the statement that inserts n rows with the given number of columns.
func InsertRows(into string, n, columns int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + into + " VALUES ")
	for row := range n {
		if row > 0 {
			b.WriteString(", ")
		}
		b.WriteString(Placeholders(1+row*columns, columns))
	}
	return b.String()
}

// grouped merges insertions of rows into statements that insert up to most rows each, and puts
// those before all other statements.
func grouped(all []statement, most int) []statement {
	var rows, others []statement
	for _, s := range all {
		if s.into != (Table{}) {
			rows = append(rows, s)
		} else {
			others = append(others, s)
		}
	}
	return append(inserts(rows, most), others...)
}

// inserts returns the statements that insert rows, table by table.
func inserts(rows []statement, most int) (made []statement) {
	byTable := map[Table][]statement{}
	for _, r := range rows {
		byTable[r.into] = append(byTable[r.into], r)
	}
	order := slices.SortedFunc(maps.Keys(byTable), func(a, b Table) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Into, b.Into))
	})
	for _, t := range order {
		for rows := byTable[t]; len(rows) > 0; {
			// Use a power of two, so that a few prepared statements serve any number of rows.
			n := min(1<<(bits.Len(uint(len(rows)))-1), most)
			var args []any
			for _, r := range rows[:n] {
				args = append(args, r.args...)
			}
			made = append(made, statement{query: InsertRows(t.Into, n, len(rows[0].args)), args: args})
			rows = rows[n:]
		}
	}
	return made
}
