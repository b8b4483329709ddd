package webhook

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// The bounds of the result of a mapping.
const (
	maxValues = 10_000
	maxNested = 32
	maxText   = 1 << 20 // total bytes of text
)

// plain converts a CEL value to what a JSON decoder returns, except that whole numbers are int64.
// Bytes become base64, and times RFC 3339.
func plain(v ref.Val) (any, error) {
	return plainly(v, maxNested, &room{values: maxValues, text: maxText})
}

// room is how much the result may still grow.
type room struct{ values, text int }

// hold takes the room of one value with that many bytes of text, or fails if there is not enough.
func (r *room) hold(text int) error {
	r.values--
	r.text -= text
	if r.values < 0 || r.text < 0 {
		return errTooMuch
	}
	return nil
}

var errTooMuch = fmt.Errorf("its value is too large: expected at most %d values, %d deep, with %d bytes of text", maxValues,
	maxNested, maxText)

func plainly(v ref.Val, deep int, left *room) (any, error) {
	if deep == 0 {
		return nil, errTooMuch
	}
	size := 0
	switch v := v.(type) {
	case types.String:
		size = len(v)
	case types.Bytes:
		size = len(v)
	}
	if err := left.hold(size); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.String, types.Double, types.Int:
		return v.Value(), nil
	case types.Uint:
		return int64(v), nil
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return plainly(v.GetValue(), deep-1, left)
	case traits.Mapper:
		m := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.Value().(string)
			if !ok {
				return nil, fmt.Errorf("a map has a key of type %s: expected strings", key.Type().TypeName())
			}
			if left.text -= len(name); left.text < 0 {
				return nil, errTooMuch
			}
			inner, err := plainly(v.Get(key), deep-1, left)
			if err != nil {
				return nil, err
			}
			m[name] = inner
		}
		return m, nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			inner, err := plainly(it.Next(), deep-1, left)
			if err != nil {
				return nil, err
			}
			list = append(list, inner)
		}
		return list, nil
	}
	return nil, fmt.Errorf("its value is a %s: expected text, numbers, truth values, lists and maps", v.Type().TypeName())
}
