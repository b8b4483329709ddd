package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Micros returns t as a column stores it, in unix microseconds, or NULL for the zero time.
func Micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// Now returns the wall clock with the precision of a column.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// OrNow returns t with the precision of a column, or now if t is zero.
func OrNow(t time.Time) time.Time {
	if t.IsZero() {
		return Now()
	}
	return t.UTC().Truncate(time.Microsecond)
}

// Flag returns b as a boolean column stores it.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Null returns s, or NULL if s is empty.
func Null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Blob returns b as a column stores it: nil is NULL, but an empty slice is not.
func Blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// OrEmpty replaces a nil slice with an empty one.
func OrEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// OrEmptyMap replaces a nil map with an empty one.
func OrEmptyMap[T any](m map[string]T) map[string]T {
	if m == nil {
		return map[string]T{}
	}
	return m
}

// ToTime scans a time. NULL is the zero time.
func ToTime(t *time.Time) sql.Scanner { return timeColumn{t} }

type timeColumn struct{ t *time.Time }

// Scan implements sql.Scanner.
func (c timeColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c.t = time.Time{}
	case int64:
		*c.t = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("a time is stored as %T", src)
	}
	return nil
}

// ToBlob scans bytes. NULL is a nil slice.
func ToBlob(b *[]byte) sql.Scanner { return blobColumn{b} }

type blobColumn struct{ b *[]byte }

// Scan implements sql.Scanner. SQLite's driver returns an empty blob as a nil slice.
func (c blobColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c.b = nil
	case []byte:
		*c.b = append([]byte{}, v...)
	default:
		return fmt.Errorf("bytes are stored as %T", src)
	}
	return nil
}

// ToText scans a text that v unmarshals. An empty string leaves v unchanged.
func ToText(v encoding.TextUnmarshaler) sql.Scanner { return textColumn{v} }

type textColumn struct{ v encoding.TextUnmarshaler }

// Scan implements sql.Scanner. An empty string leaves the value unchanged.
func (c textColumn) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("text is stored as %T", src)
	}
	if s == "" {
		return nil
	}
	return c.v.UnmarshalText([]byte(s))
}

// ToJSON scans JSON into what v points to.
func ToJSON(v any) sql.Scanner { return jsonColumn{v} }

type jsonColumn struct{ v any }

// Scan implements sql.Scanner.
func (c jsonColumn) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("JSON is stored as %T", src)
	}
	return json.Unmarshal([]byte(s), c.v)
}

// ToParams scans the parameters that an instance's templates read: strings, int64 and bools.
func ToParams(v *map[string]any) sql.Scanner { return paramsColumn{v} }

type paramsColumn struct{ v *map[string]any }

// Scan implements sql.Scanner.
func (c paramsColumn) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("JSON is stored as %T", src)
	}
	var raw map[string]any
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber() // a float64 is not exact beyond 2^53
	if err := d.Decode(&raw); err != nil {
		return err
	}
	for name, v := range raw {
		if n, ok := v.(json.Number); ok {
			whole, err := n.Int64()
			if err != nil {
				return fmt.Errorf("param %s: %w", name, err)
			}
			raw[name] = whole
		}
	}
	*c.v = raw
	return nil
}

// AsJSON returns v as a column stores it, as JSON.
func AsJSON(v any) driver.Valuer { return jsonValue{v} }

type jsonValue struct{ v any }

// Value implements driver.Valuer.
func (c jsonValue) Value() (driver.Value, error) {
	switch v := c.v.(type) { // the common empty values, without reflection
	case []string:
		if len(v) == 0 && v != nil {
			return "[]", nil
		}
	case map[string]string:
		if len(v) == 0 && v != nil {
			return "{}", nil
		}
	case map[string]any:
		if v == nil {
			return "null", nil
		}
	}
	b, err := json.Marshal(c.v)
	return string(b), err
}

// Text returns an address as a column stores it. The zero address is the empty string.
func Text[T interface {
	comparable
	fmt.Stringer
}](v T) string {
	var zero T
	if v == zero {
		return ""
	}
	return v.String()
}
