package cli

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"seedbed"
)

// Flag is a flag that sets one field of what a command sends. The field's type decides what the flag
// accepts. A pointer stays nil unless the flag is given.
type Flag struct {
	// Field is the field's name in JSON. A name after a dot is a field of that struct.
	Field string
	// Name is empty if the flag has the field's name, with dashes.
	Name, Short, Usage string
	// Words are the only values that the flag accepts, regardless of case.
	Words []string
	// Expected says in an error what is expected, such as "a network such as 192.0.2.0/24".
	Expected string
	// Each makes every occurrence of the flag one value of a list. Otherwise commas also separate
	// values.
	Each bool
	// Not makes a flag of its own that turns the field off. Off makes a second flag that does, with
	// the prefix "no-" and this short name.
	Not bool
	Off string
	// Parse returns the field's value for the flag's text, ParseAll for those of a list, when the
	// command runs.
	Parse    func(text string) (any, error)
	ParseAll func(texts []string) (any, error)
	// Names completes the value.
	Names    NameLister
	Required bool
}

func (f Flag) name() string {
	return cmp.Or(f.Name, strings.ReplaceAll(f.Field[strings.LastIndexByte(f.Field, '.')+1:], "_", "-"))
}

// Bound are the flags of a command that set fields of one struct.
type Bound struct {
	a     *App
	c     *cobra.Command
	to    reflect.Value
	flags []Flag
}

// FieldKey is the annotation of a bound flag: the type and the JSON name of the field that it sets.
const FieldKey = "seedbed field"

// Mapping returns the parser of a flag whose values are OLD=NEW, for the field ParseAll of a [Flag].
func Mapping(flag string) func(texts []string) (any, error) {
	return func(texts []string) (any, error) {
		to := map[string]string{}
		for _, text := range texts {
			old, by, ok := strings.Cut(text, "=")
			if !ok || old == "" || by == "" {
				return nil, Usagef("--%s %q: expected OLD=NEW", flag, text)
			}
			to[old] = by
		}
		return to, nil
	}
}

// Bind adds the flags of a table to c. Read then sets the fields of to, a pointer to a struct, whose
// present values are the defaults.
func Bind(a *App, c *cobra.Command, to any, table ...Flag) *Bound {
	b := &Bound{a, c, reflect.ValueOf(to).Elem(), table}
	for _, f := range table {
		b.add(f)
		flag := c.Flags().Lookup(f.name())
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[FieldKey] = []string{b.to.Type().String(), f.Field}
		if f.Names != nil {
			a.CompleteFlag(c, f.name(), a.FlagCompletion(f.Names))
		}
		if f.Required {
			_ = c.MarkFlagRequired(f.name()) // the flag was added above
		}
	}
	return b
}

// Fill is Bind for a command whose fields are set before its work begins.
func (a *App) Fill(c *cobra.Command, to any, table ...Flag) *Bound {
	b := Bind(a, c, to, table...)
	if a.bound == nil {
		a.bound = map[*cobra.Command][]*Bound{}
	}
	a.bound[c] = append(a.bound[c], b)
	return b
}

// add adds one flag, which keeps its value until it is read.
func (b *Bound) add(f Flag) {
	set, name, value := b.c.Flags(), f.name(), b.field(f.Field)
	if value.Kind() == reflect.Pointer && f.Parse == nil {
		present := reflect.New(value.Type().Elem()).Elem()
		if !value.IsNil() {
			present = value.Elem()
		}
		value = present
	}
	text := ""
	if m, ok := value.Interface().(encoding.TextMarshaler); ok && !value.IsZero() && f.Parse == nil {
		b, _ := m.MarshalText() // these types always have a text
		text = string(b)
	}
	switch now := value.Interface().(type) {
	case time.Duration:
		set.VarP(NewDuration(&now), name, f.Short, f.Usage)
		return
	case encoding.TextMarshaler:
		set.StringP(name, f.Short, text, f.Usage)
		return
	}
	switch {
	case f.Words != nil:
		word := value.String()
		AddChoice(b.a, b.c, &word, name, f.Short, f.Usage, f.Words...)
	case f.Off != "":
		set.BoolP(name, f.Short, value.Bool(), f.Usage)
		set.BoolP("no-"+name, f.Off, false, "turn --"+name+" off")
		b.c.MarkFlagsMutuallyExclusive(name, "no-"+name)
	case f.Each:
		set.StringArrayP(name, f.Short, nil, f.Usage)
	case f.ParseAll != nil || f.Parse == nil && value.Kind() == reflect.Slice:
		set.StringSliceP(name, f.Short, nil, f.Usage)
	case f.Parse != nil && value.Kind() != reflect.String:
		set.StringP(name, f.Short, "", f.Usage)
	case value.Kind() == reflect.String:
		set.StringP(name, f.Short, value.String(), f.Usage)
	case value.Kind() == reflect.Bool:
		set.BoolP(name, f.Short, value.Bool() && !f.Not, f.Usage)
	case value.Kind() == reflect.Float64:
		set.Float64P(name, f.Short, value.Float(), f.Usage)
	case value.CanInt():
		set.IntP(name, f.Short, int(value.Int()), f.Usage)
	default:
		panic(fmt.Sprintf("the flag --%s has no text for a %s", name, value.Type()))
	}
}

// Name returns the name of the flag that sets a field.
func (b *Bound) Name(field string) string {
	for _, f := range b.flags {
		if f.Field == field {
			return f.name()
		}
	}
	return ""
}

// Text returns the text of one of the flags.
func (b *Bound) Text(name string) string { return b.c.Flag(name).Value.String() }

// Changed reports whether one of the flags was given.
func (b *Bound) Changed(name string) bool { return b.c.Flags().Changed(name) }

// Given reports whether any of the flags was given.
func (b *Bound) Given() bool { return len(b.GivenNames()) > 0 }

// GivenNames returns the names of the given flags.
func (b *Bound) GivenNames() (names []string) {
	for _, f := range b.flags {
		if b.given(f) {
			names = append(names, f.name())
		}
	}
	return names
}

func (b *Bound) given(f Flag) bool {
	return b.c.Flags().Changed(f.name()) || f.Off != "" && b.c.Flags().Changed("no-"+f.name())
}

// Read sets the fields whose flags were given. It returns the error of a value that a field cannot
// have.
func (b *Bound) Read() error {
	for _, f := range b.flags {
		if !b.given(f) {
			continue
		}
		if err := b.read(f, b.field(f.Field)); err != nil {
			return err
		}
	}
	return nil
}

// Values returns the values of the given flags, by the fields' names.
func (b *Bound) Values() (map[string]any, error) {
	all := map[string]any{}
	for _, f := range b.flags {
		if !b.given(f) {
			continue
		}
		value, err := b.value(f, b.field(f.Field).Type())
		if err != nil {
			return nil, err
		}
		all[f.Field] = value
	}
	return all, nil
}

func (b *Bound) read(f Flag, to reflect.Value) error {
	read, err := b.value(f, to.Type())
	if err != nil || read == nil {
		return err
	}
	value := reflect.ValueOf(read)
	if to.Kind() == reflect.Pointer && value.Kind() != reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	to.Set(value.Convert(to.Type()))
	return nil
}

// value returns what a flag says, for a field of type t. A nil sets nothing.
func (b *Bound) value(f Flag, t reflect.Type) (any, error) {
	set, name := b.c.Flags(), f.name()
	flag := set.Lookup(name)
	text := flag.Value.String()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	// The flags have the types that add gave them.
	switch flag.Value.Type() {
	case "bool":
		on, _ := set.GetBool(name)
		if f.Off != "" {
			off, _ := set.GetBool("no-" + name)
			on = on && !off
		}
		return on != f.Not, nil
	case "int":
		return set.GetInt(name)
	case "float64":
		return set.GetFloat64(name)
	case "duration":
		return set.GetDuration(name)
	case "stringArray": // as given: GetStringArray would read the texts as CSV
		return b.list(f, t, flag.Value.(pflag.SliceValue).GetSlice())
	case "stringSlice":
		texts, _ := set.GetStringSlice(name)
		return b.list(f, t, texts)
	}
	switch {
	case f.Parse != nil:
		return f.Parse(text)
	case t == reflect.TypeFor[time.Time]():
		if text == "" {
			return nil, nil
		}
		return ParseMoment(name, text, b.a.Now())
	case t.Kind() == reflect.String:
		return text, nil
	}
	return parsed(f, t, text)
}

func (b *Bound) list(f Flag, t reflect.Type, texts []string) (any, error) {
	switch {
	case f.ParseAll != nil:
		return f.ParseAll(texts)
	case t == reflect.TypeFor[map[string]string]():
		return ParseTags(texts)
	case t.Elem().Kind() == reflect.String:
		return texts, nil
	}
	all := reflect.MakeSlice(t, 0, len(texts))
	for _, text := range texts {
		one, err := parsed(f, t.Elem(), text)
		if err != nil {
			return nil, err
		}
		all = reflect.Append(all, reflect.ValueOf(one))
	}
	return all.Interface(), nil
}

// parsed returns the value of a type that parses its own text.
func parsed(f Flag, t reflect.Type, text string) (any, error) {
	v := reflect.New(t)
	err := v.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	switch {
	case err != nil && f.Expected != "":
		return nil, Usagef("--%s %q: expected %s", f.name(), text, f.Expected)
	case err != nil:
		return nil, Usagef("--%s: %s", f.name(), err)
	}
	return v.Elem().Interface(), nil
}

// field returns the field of that JSON name.
func (b *Bound) field(path string) reflect.Value {
	v := b.to
	for name := range strings.SplitSeq(path, ".") {
		index, found := fieldsOf(v.Type())[name]
		if !found {
			panic(fmt.Sprintf("%s has no field %q", b.to.Type(), path))
		}
		v = v.FieldByIndex(index)
	}
	return v
}

// fields are the results of fieldsOf, by type: each run of the tool asks hundreds of times.
var fields sync.Map

// fieldsOf returns the indexes of a struct's fields, by their names in JSON.
func fieldsOf(t reflect.Type) map[string][]int {
	if known, ok := fields.Load(t); ok {
		return known.(map[string][]int)
	}
	all := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name := JSONName(f); name != "" && all[name] == nil {
			all[name] = f.Index
		}
	}
	fields.Store(t, all)
	return all
}

// JSONName returns a field's name in JSON, or an empty string if it has none.
func JSONName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || f.Anonymous && name == "" {
		return ""
	}
	return name
}

// FromFile makes a text that begins with @ the name of a file with it.
func FromFile(text string) (any, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		content, err := ReadBounded(name, 64*seedbed.KiB)
		return strings.TrimSpace(string(content)), err
	}
	return text, nil
}
