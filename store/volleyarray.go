package store

import (
	"database/sql/driver"
	encoding "encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// pileTypes are the columns' types of the tables that are gathered: text, bigint
// (i) or bytea.
var pileTypes = map[string]string{
	intoJob:      "ttttttttt" + "itiii",
	intoInstance: "ttttttiitibttbttttt" + "ittt" + "tttt" + "iii",
	intoNIC:      "tittt",
	intoVolume:   "tttiit",
	intoDelivery: "ttbitt" + "tb",
	intoEvent:    "tiittti",
	intoAudit:    "ittttttt",

	intoSystem:          "itiiiittti" + "tiiii",
	intoNetworkTemplate: "ittiii",
	intoStorageTemplate: "itiii",
	intoUserData:        "ittiii",
	intoScript:          "ittiii",
}

// columnKind is how PostgreSQL names a type, and its number (pg_type.h).
type columnKind struct {
	name string
	oid  uint32
}

var columnKinds = map[byte]columnKind{'t': {"text", 25}, 'i': {"bigint", 20}, 'b': {"bytea", 17}}

// arrays are parameters of arrays of those types, from number first.
func arrays(types string, first int) string {
	var b strings.Builder
	for i := range len(types) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(first+i) + "::" + columnKinds[types[i]].name + "[]")
	}
	return b.String()
}

// columns turns rows into an array for each column, as PostgreSQL sends and
// receives arrays (array_recv in its source).
func columns(types string, rows [][]any) ([][]byte, error) {
	all := make([][]byte, len(types))
	for c := range all {
		b := make([]byte, 0, 20+len(rows)*24)
		b = encoding.BigEndian.AppendUint32(b, 1) // dimensions
		b = encoding.BigEndian.AppendUint32(b, 0) // whether there are NULLs, which the elements tell anyway
		b = encoding.BigEndian.AppendUint32(b, columnKinds[types[c]].oid)
		b = encoding.BigEndian.AppendUint32(b, uint32(len(rows)))
		b = encoding.BigEndian.AppendUint32(b, 1) // the first one's number
		for _, row := range rows {
			var err error
			if b, err = element(b, types[c], row[c]); err != nil {
				return nil, err
			}
		}
		all[c] = b
	}
	return all, nil
}

func element(b []byte, kind byte, v any) ([]byte, error) {
	switch v.(type) {
	case string, int64, []byte, nil:
	default:
		var err error
		if v, err = driver.DefaultParameterConverter.ConvertValue(v); err != nil {
			return nil, err
		}
	}
	switch v := v.(type) {
	case nil:
		return encoding.BigEndian.AppendUint32(b, 1<<32-1), nil
	case string:
		if kind == 't' {
			return append(encoding.BigEndian.AppendUint32(b, uint32(len(v))), v...), nil
		}
	case []byte:
		if kind == 'b' {
			return append(encoding.BigEndian.AppendUint32(b, uint32(len(v))), v...), nil
		}
	case int64:
		if kind == 'i' {
			return append(encoding.BigEndian.AppendUint32(b, 8), bigint(v)...), nil
		}
	}
	return nil, fmt.Errorf("%T is no %s", v, columnKinds[kind].name)
}

func bigint(n int64) []byte { return encoding.BigEndian.AppendUint64(nil, uint64(n)) }
