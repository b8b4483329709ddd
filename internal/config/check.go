package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"seedbed"
)

// check compares the file's tree with the struct type t. It reports unknown keys, and values of the
// wrong type. The YAML library reports the same errors, but stops at the first and loses the line
// of values that parse themselves.
func (s source) check(root ast.Node, t reflect.Type) error {
	return errors.Join(s.checkNode("", root, t)...)
}

func (s source) checkNode(path string, n ast.Node, t reflect.Type) []error {
	if n.Type() == ast.NullType || n.Type() == ast.AnchorType || n.Type() == ast.AliasType {
		return nil // no value, or one that the library resolves
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return s.checkLeaf(path, n, t)
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return s.checkMapping(path, n, t)
	case reflect.Slice:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return []error{s.at(n.GetToken().Position.Line, fmt.Sprintf("%s: expected a list, such as [a, b]", path))}
		}
		var errs []error
		for i, v := range list.Values {
			errs = append(errs, s.checkNode(fmt.Sprintf("%s[%d]", path, i), v, t.Elem())...)
		}
		return errs
	}
	return s.checkLeaf(path, n, t)
}

func (s source) checkMapping(path string, n ast.Node, t reflect.Type) []error {
	m, ok := n.(ast.MapNode)
	if !ok {
		where := ""
		if path != "" {
			where = path + ": "
		}
		return []error{s.at(n.GetToken().Position.Line, where+"expected keys and values, such as \"key: value\"")}
	}
	var errs []error
	for it := m.MapRange(); it.Next(); {
		key := it.Key().GetToken().Value
		elem, known := child(t, key)
		switch full := strings.TrimPrefix(path+"."+key, "."); {
		case it.Key().IsMergeKey():
		case elem == nil:
			errs = append(errs, s.at(it.Key().GetToken().Position.Line,
				fmt.Sprintf("unknown key %q: expected one of %s", full, strings.Join(known, ", "))))
		default:
			errs = append(errs, s.checkNode(full, it.Value(), elem)...)
		}
	}
	return errs
}

// child returns the type of t's key, or nil and the known keys.
func child(t reflect.Type, key string) (reflect.Type, []string) {
	if t.Kind() == reflect.Map {
		return t.Elem(), nil
	}
	var known []string
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		if name == key {
			return f.Type, nil
		}
		known = append(known, name)
	}
	slices.Sort(known)
	return nil, known
}

func (s source) checkLeaf(path string, n ast.Node, t reflect.Type) []error {
	if yaml.NodeToValue(n, reflect.New(t).Interface(), yaml.CustomUnmarshaler(duration)) == nil {
		return nil
	}
	return []error{s.at(n.GetToken().Position.Line, fmt.Sprintf("%s: %q is not %s", path, n.GetToken().Value, want(t)))}
}

func want(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "a duration: expected a number and a unit, such as 500ms, 10s, 5m, 24h or 30d"
	case reflect.TypeFor[seedbed.Priority]():
		return "a priority: expected low, normal, high, or a whole number from -100 to 100"
	case reflect.TypeFor[Prefix]():
		return "a subnet: expected auto, or an IPv4 prefix such as 10.80.0.0/24"
	case reflect.TypeFor[Overcommit]():
		return "a limit: expected " + overcommitValues
	}
	switch t.Kind() {
	case reflect.Bool:
		return "a switch: expected true or false"
	case reflect.Int, reflect.Uint16:
		return "a number in range: expected only digits, such as 4"
	case reflect.Int64:
		return "a size: expected a whole number and a unit, such as 256KiB or 10GiB"
	case reflect.String:
		return "text: put it in quotes"
	}
	return "an IP address, such as 192.0.2.53"
}
