package intake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"seedbed"
)

// declaredValues reads the values that a request gives for declared parameters: strings, int64 and
// bools by name. A parameter that is not given has no entry.
func declaredValues(declared []seedbed.Param, given map[string]any) (map[string]any, error) {
	values := map[string]any{}
	known := map[string]seedbed.Param{}
	for _, p := range declared {
		known[p.Name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		p, ok := known[name]
		if !ok {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "param %q is unknown: the profile declares %s", seedbed.Clip(name),
				declaredNames(declared))
		}
		text, ok := paramText(p, given[name])
		if !ok {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "param %s is %s: expected %s", p.Name, kindOf(given[name]), wanted(p))
		}
		v, err := p.Parse(text)
		if err != nil {
			return nil, err
		}
		values[name] = v
	}
	for _, p := range declared {
		if _, ok := values[p.Name]; p.Required && !ok {
			about := ""
			if p.Description != "" {
				about = " (" + p.Description + ")"
			}
			return nil, seedbed.Errorf(seedbed.ErrInvalid,
				"param %s%s is missing, and the profile requires it: expected %s", p.Name, about, wanted(p))
		}
	}
	return values, nil
}

// paramText converts a JSON value to the text that a parameter of its type is parsed from.
func paramText(p seedbed.Param, v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), p.Type == seedbed.ParamBool
	}
	n, ok := whole(v)
	return strconv.FormatInt(n, 10), ok && (p.Type == seedbed.ParamInt || p.Type == seedbed.ParamSize)
}

// wanted describes the values that a parameter takes.
func wanted(p seedbed.Param) string {
	switch p.Type {
	case seedbed.ParamInt:
		return "a whole number"
	case seedbed.ParamSize:
		return "a size such as 10GiB"
	case seedbed.ParamBool:
		return "true or false"
	case seedbed.ParamEnum:
		return "one of " + strings.Join(p.Values, ", ")
	case seedbed.ParamSecret:
		return "a secret, as a string"
	}
	return "a string"
}

func declaredNames(declared []seedbed.Param) string {
	if len(declared) == 0 {
		return "none"
	}
	var names []string
	for _, p := range declared {
		names = append(names, fmt.Sprintf("%s (%s)", p.Name, p.Type))
	}
	return strings.Join(names, ", ")
}
