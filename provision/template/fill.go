package template

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"

	"seedbed"
)

// Fill returns the document with the values filled in, of at most limit bytes. The error is
// seedbed.ErrInvalid, with line and column, for a missing param or tag and for a value that is not
// text.
func (t *Template) Fill(v Values, limit seedbed.Bytes) ([]byte, error) {
	return t.Eval(v.activation(), limit)
}

// Eval is like Fill with the values by name, as [Named] returns those of params.
func (t *Template) Eval(act map[string]any, limit seedbed.Bytes) ([]byte, error) {
	var out bytes.Buffer
	for _, p := range t.parts {
		if p.program == nil {
			out.Write(p.literal)
		} else {
			s, err := p.value(act)
			if err != nil {
				return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s line %d, column %d: %s %s", t.name, p.line+t.above, p.column, quote(p.source), err)
			}
			out.WriteString(s)
		}
		if out.Len() > int(limit) {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is more than %s with its values", t.name, limit)
		}
	}
	return out.Bytes(), nil
}

func (p part) value(act map[string]any) (string, error) {
	v, _, err := p.program.Eval(act)
	if err != nil {
		return "", fmt.Errorf("has no value: %s", strings.TrimPrefix(err.Error(), "no such attribute(s): "))
	}
	switch x := v.(type) {
	case types.Int:
		return strconv.FormatInt(int64(x), 10), nil
	case types.String:
		if !p.integer {
			return string(x), nil
		}
	case types.Bool:
		if !p.integer {
			return strconv.FormatBool(bool(x)), nil
		}
	}
	if p.integer {
		return "", fmt.Errorf("gives %s: expected an integer", v.Type().TypeName())
	}
	return "", fmt.Errorf("gives %s: expected a string, an integer or true or false", v.Type().TypeName())
}

// Number returns the number at the end of a name, which expressions read as vm.number.
func Number(name string) (int64, bool) {
	head := strings.TrimRight(name, "0123456789")
	n, err := strconv.ParseInt(name[len(head):], 10, 64)
	return n, err == nil
}
