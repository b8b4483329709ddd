package store

import (
	encoding "encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// columnKind is how PostgreSQL names a type, and its number (pg_type.h).
type columnKind struct {
	name string
	oid  uint32
}

// columnKinds are the types by their letters in pileTypes.
var columnKinds = map[byte]columnKind{'t': {"text", 25}, 'i': {"bigint", 20}, 'b': {"bytea", 17}}

func columnKindOf(t byte) columnKind { return columnKinds[t|0x20] }

// insertArrays is the statement that adds rows to the table of that place, which
// come as one array for each column, or as one value for those that they have alike.
// Arrays are taken apart side by side in the list of what is selected: in FROM
// each would be put down whole first.
func insertArrays(at int, shared bool) string {
	if shared {
		return insertShared[at]
	}
	return insertApart[at]
}

var insertShared, insertApart = arrayStatements(true), arrayStatements(false)

func arrayStatements(shared bool) (all [piles]string) {
	for at, types := range pileTypes {
		var values []string
		for c := range len(types) {
			value := "$" + strconv.Itoa(c+1) + "::" + columnKindOf(types[c]).name
			if !shared || !shareable(types[c]) {
				value = "unnest(" + value + "[])"
			}
			values = append(values, value)
		}
		all[at] = "INSERT INTO " + pileOrder[at] + " SELECT " + strings.Join(values, ", ")
	}
	return all
}

// columns turns rows into an array for each column, as PostgreSQL sends and
// receives arrays (array_recv in its source), or into one value where that is shared.
func columns(types string, shared bool, rows [][]any) (all [][]byte, err error) {
	all = make([][]byte, len(types))
	for c := range all {
		if shared && shareable(types[c]) {
			if all[c], err = columnBytes([]byte{}, types[c], rows[0][c]); err != nil {
				return nil, err
			}
			continue
		}
		b := make([]byte, 0, 20+len(rows)*44)
		b = encoding.BigEndian.AppendUint32(b, 1) // dimensions
		b = encoding.BigEndian.AppendUint32(b, 0) // whether there are NULLs, which the elements tell anyway
		b = encoding.BigEndian.AppendUint32(b, columnKindOf(types[c]).oid)
		b = encoding.BigEndian.AppendUint32(b, uint32(len(rows)))
		b = encoding.BigEndian.AppendUint32(b, 1) // the first one's number
		for _, row := range rows {
			if row[c] == nil {
				b = encoding.BigEndian.AppendUint32(b, 1<<32-1)
				continue
			}
			at := len(b)
			if b, err = columnBytes(append(b, 0, 0, 0, 0), types[c], row[c]); err != nil {
				return nil, err
			}
			encoding.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
		}
		all[c] = b
	}
	return all, nil
}

// columnBytes appends a value as PostgreSQL receives it; nil is NULL.
func columnBytes(b []byte, kind byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		if kind|0x20 == 't' {
			return append(b, v...), nil
		}
	case []byte:
		if kind|0x20 == 'b' {
			return append(b, v...), nil
		}
	case int64:
		if kind|0x20 == 'i' {
			return encoding.BigEndian.AppendUint64(b, uint64(v)), nil
		}
	}
	return nil, fmt.Errorf("%T is no %s", v, columnKindOf(kind).name)
}

func bigint(n int64) []byte { return encoding.BigEndian.AppendUint64(nil, uint64(n)) }
