package store

import (
	"database/sql/driver"
	"fmt"
	"strings"
)

// pileTypes are the columns' types of the tables that are gathered, in the order of
// pileOrder: text, bigint (i) or bytea. A capital is a column that writes which come
// at the same time mostly have alike, such as those for the same hook and profile:
// where they do in all of these, the value is given once.
var pileTypes = [piles]string{
	"tTTttTtTTITIiI", // job
	"ttTTtTIITIb" + "Tt" + "bTTTTTITTTtTTT" + "Iii", // instance
	"tItTt",    // nic
	"TttIIT",   // volume
	"Ttbitttb", // delivery
	"tIiTTtI",  // job_event
	"ittttttt", // audit

	"itiiiittti" + "titiiii", // system_template
	"ittiii",                 // network_template
	"itiii",                  // storage_template
	"ittiii",                 // userdata
	"ittiii",                 // script
}

// shareable tells whether a type is that of a column which may be given once.
func shareable(t byte) bool { return t < 'a' }

// alike tells whether the columns that may be given once can be.
func alike(types string, rows [][]any) bool {
	if strings.ToLower(types) == types {
		return false
	}
	for _, row := range rows[1:] {
		for c := range row {
			if shareable(types[c]) && row[c] != rows[0][c] {
				return false
			}
		}
	}
	return true
}

// columnValue is v as both databases take it: a text, an int64, bytes or nil.
func columnValue(v any) (any, error) {
	switch n := v.(type) {
	case nil, string, int64, []byte:
		return v, nil
	case int:
		return int64(n), nil
	}
	v, err := driver.DefaultParameterConverter.ConvertValue(v)
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case nil, string, int64, []byte:
		return v, nil
	}
	return nil, fmt.Errorf("%T is no column's value", v)
}
