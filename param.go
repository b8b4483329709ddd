package seedbed

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParamType is the type of a parameter's values.
type ParamType string

// The types of parameter.
const (
	ParamString ParamType = "string"
	ParamInt    ParamType = "int"
	ParamSize   ParamType = "size" // bytes, as ParseBytes parses them
	ParamBool   ParamType = "bool"
	ParamEnum   ParamType = "enum"   // one of Values
	ParamSecret ParamType = "secret" // a string that is never shown
)

// ParamTypes returns all types.
func ParamTypes() []ParamType {
	return []ParamType{ParamString, ParamInt, ParamSize, ParamBool, ParamEnum, ParamSecret}
}

// Param is one declared parameter of a profile, which a request may or must set.
type Param struct {
	Name string    `json:"name"`
	Type ParamType `json:"type"`
	// Default is the value for a request that does not set the parameter, as text. It may contain
	// expressions over other parameters. Nil means no default.
	Default *ParamText `json:"default,omitempty"`
	// Pattern is a regular expression (RE2) that the whole of a string or secret must match; empty
	// means any.
	Pattern string `json:"pattern,omitempty"`
	// Values are the values of an enum.
	Values      []string `json:"values,omitempty"`
	Description string   `json:"description,omitempty"`
	// Required refuses a request that does not set it.
	Required bool `json:"required,omitempty"`
}

// ParamText is a value as text. In JSON it may also be a number, true or false.
type ParamText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *ParamText) UnmarshalJSON(b []byte) error {
	text := string(b)
	if strings.HasPrefix(text, `"`) {
		return json.Unmarshal(b, (*string)(t))
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil && text != "true" && text != "false" {
		return Errorf(ErrInvalid, "a default is %s: expected a string, a number, true or false", Clip(text))
	}
	*t = ParamText(text)
	return nil
}

// The bounds of parameters.
const (
	MaxParams      = 64
	maxParamValues = 64
	// MaxParamText bounds a value, in bytes.
	MaxParamText = 4096
)

var paramForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// CheckParams returns ErrInvalid for a declaration that is not valid. It does not evaluate
// expressions.
func CheckParams(params []Param) error {
	if len(params) > MaxParams {
		return Errorf(ErrInvalid, "there are %d params: expected at most %d", len(params), MaxParams)
	}
	known := map[string]bool{}
	for _, p := range params {
		if !paramForm.MatchString(p.Name) {
			return Errorf(ErrInvalid,
				"param %q has no usable name: expected a letter or underscore, then letters, digits and underscores, at most 63", Clip(p.Name))
		}
		if known[p.Name] {
			return Errorf(ErrInvalid, "param %s is declared twice", p.Name)
		}
		known[p.Name] = true
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

func (p Param) check() error {
	refuse := func(format string, args ...any) error {
		return Errorf(ErrInvalid, "param "+p.Name+": "+format, args...)
	}
	textual := p.Type == ParamString || p.Type == ParamSecret
	switch {
	case !slices.Contains(ParamTypes(), p.Type):
		return refuse("type %q is unknown: expected string, int, size, bool, enum or secret", Clip(string(p.Type)))
	case p.Type == ParamEnum && len(p.Values) == 0:
		return refuse("an enum needs the values that it may have")
	case p.Type != ParamEnum && len(p.Values) > 0:
		return refuse("values are for the type enum, and it is %s", p.Type)
	case len(p.Values) > maxParamValues:
		return refuse("there are %d values: expected at most %d", len(p.Values), maxParamValues)
	case p.Pattern != "" && !textual:
		return refuse("a pattern is for the types string and secret, and it is %s", p.Type)
	case len(p.Pattern) > 512:
		return refuse("the pattern has %d bytes: expected at most 512", len(p.Pattern))
	case p.Default != nil && p.Required:
		return refuse("a required param cannot have a default: expected only one of them")
	case p.Default != nil && p.Type == ParamSecret:
		return refuse("a secret cannot have a default: everyone who can read the profile could read it")
	case !oneLineText(p.Description, 1024):
		return refuse("the description is not usable: expected one line of at most 1024 bytes")
	case p.Default != nil && !plain(string(*p.Default)):
		return refuse("the default is not usable: expected UTF-8 text without NUL of at most %d bytes", MaxParamText)
	}
	for _, v := range p.Values {
		if v == "" || !oneLineText(v, 256) {
			return refuse("the value %q is not usable: expected one line of 1 to 256 bytes", Clip(v))
		}
	}
	if _, err := p.pattern(); err != nil {
		return refuse("pattern %q is not a regular expression: %s", Clip(p.Pattern), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return nil
}

// pattern returns the compiled Pattern, which matches a whole value; nil if Pattern is empty.
func (p Param) pattern() (*regexp.Regexp, error) {
	if p.Pattern == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(p.Pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + p.Pattern + `)\z`)
}

// Parse parses the text of a value. The result is a string, an int64 (in bytes for a size) or a
// bool. The error, ErrInvalid, does not quote a secret.
func (p Param) Parse(text string) (any, error) {
	shown := strconv.Quote(Clip(text))
	if p.Type == ParamSecret {
		shown = "what is given"
	}
	refuse := func(want string) (any, error) {
		return nil, Errorf(ErrInvalid, "param %s: %s is not usable: expected %s", p.Name, shown, want)
	}
	switch p.Type {
	case ParamInt:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return refuse("a whole number")
		}
		return n, nil
	case ParamSize:
		b, err := ParseBytes(text)
		if err != nil {
			return refuse("a size such as 512MiB or 10GiB")
		}
		return int64(b), nil
	case ParamBool:
		if text != "true" && text != "false" {
			return refuse("true or false")
		}
		return text == "true", nil
	case ParamEnum:
		if !slices.Contains(p.Values, text) {
			return refuse("one of " + strings.Join(p.Values, ", "))
		}
		return text, nil
	}
	if !plain(text) {
		return refuse("UTF-8 text without NUL of at most " + strconv.Itoa(MaxParamText) + " bytes")
	}
	re, err := p.pattern()
	if err != nil || re != nil && !re.MatchString(text) {
		return refuse("text that matches " + Clip(p.Pattern))
	}
	return text, nil
}

func plain(s string) bool {
	return len(s) <= MaxParamText && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

func oneLineText(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, isControl)
}
