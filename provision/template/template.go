// Package template fills references to an instance into the documents that are served to it. A
// document is a template only if its first line is [Header], which is not served. All other
// documents are served unchanged.
//
// In a template ${expression} stands for the expression's value as text, and $(expression) for the
// result of integer arithmetic. $${ and $$( stand for themselves without the first dollar sign, for
// text that a shell in the guest must see. Expressions are CEL (https://cel.dev) over the names of
// a [Scope], without loops; ${…} inside one is a bracket. Inserted values are text and are not
// expanded again.
package template

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"seedbed"
)

// Header is the first line of a template.
const Header = "## template: seedbed"

const (
	maxExpression  = 512
	maxExpressions = 2000
)

// Template is a parsed document. It is safe for concurrent use.
type Template struct {
	name  string
	body  []byte
	parts []part
	reads map[string]bool // the names that are read
	scope *Scope
	above int    // number of lines above the body
	seen  string // who sees escaped expressions
}

// part is a literal, or an expression if program is set.
type part struct {
	literal []byte
	program cel.Program
	out     *cel.Type
	source  string // including brackets
	integer bool   // $(…)
	line    int
	column  int
}

// Is reports whether a document is a template.
func Is(doc []byte) bool {
	first, _, _ := bytes.Cut(doc, []byte("\n"))
	return string(bytes.TrimRight(first, " \t\r")) == Header
}

// Parse parses a template; [Is] must be true for it. Messages call the document name. The error, of
// kind seedbed.ErrInvalid, has the line and column of an expression that is invalid or reads an
// unknown name, and says how to escape it.
func Parse(scope *Scope, name string, doc []byte) (*Template, error) {
	_, body, _ := bytes.Cut(doc, []byte("\n"))
	return (&Template{name: name, body: body, reads: map[string]bool{}, scope: scope, above: 1, seen: "for the guest to see"}).parse()
}

// ParseField parses the text of a field, all of which is the template. Messages call the field
// name.
func ParseField(scope *Scope, name, text string) (*Template, error) {
	return (&Template{name: name, body: []byte(text), reads: map[string]bool{}, scope: scope, seen: "for"}).parse()
}

func (t *Template) parse() (*Template, error) {
	name, body := t.name, t.body
	compiled := map[string]part{}
	count := 0
	for rest := body; len(rest) > 0; {
		at := nextDollar(rest)
		if at < 0 {
			t.literal(rest)
			break
		}
		t.literal(rest[:at])
		rest = rest[at:]
		if rest[1] == '$' { // $${ or $$(
			t.literal(rest[1:3])
			rest = rest[3:]
			continue
		}
		line, column := position(body, len(body)-len(rest))
		end := closing(rest)
		if end < 0 {
			return nil, t.invalid(line, column, string(clipLine(rest)), "has no end on its line")
		}
		if count++; count > maxExpressions {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "%s has more than %d expressions", name, maxExpressions)
		}
		source := string(rest[:end])
		p, known := compiled[source]
		if !known {
			var err error
			if p, err = t.compile(source); err != nil {
				return nil, t.invalid(line, column, source, err.Error())
			}
			compiled[source] = p
		}
		p.line, p.column = line, column
		t.parts = append(t.parts, p)
		rest = rest[end:]
	}
	return t, nil
}

// nextDollar returns the index of the next ${, $(, $${ or $$(, or -1.
func nextDollar(b []byte) int {
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '$' {
			continue
		}
		if opens(b[i+1]) || b[i+1] == '$' && i+2 < len(b) && opens(b[i+2]) {
			return i
		}
	}
	return -1
}

func opens(c byte) bool { return c == '{' || c == '(' }

// closing returns the length of the expression with which b starts, brackets included, or -1 if it
// does not end on its line. Brackets nest; those in strings do not count.
func closing(b []byte) int {
	var open []byte
	for i := 1; i < len(b) && i < maxExpression; i++ {
		switch c := b[i]; c {
		case '\n':
			return -1
		case '{', '(', '[':
			open = append(open, c)
		case '}', ')', ']':
			if last := open[len(open)-1]; last != pair[c] {
				return -1
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return i + 1
			}
		case '"', '\'':
			for i++; i < len(b) && b[i] != c && b[i] != '\n'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if i >= len(b) || b[i] != c {
				return -1
			}
		}
	}
	return -1
}

var pair = map[byte]byte{'}': '{', ')': '(', ']': '['}

func (t *Template) literal(b []byte) {
	if len(b) == 0 {
		return
	}
	if n := len(t.parts); n > 0 && t.parts[n-1].program == nil {
		t.parts[n-1].literal = append(t.parts[n-1].literal, b...)
		return
	}
	t.parts = append(t.parts, part{literal: bytes.Clone(b)})
}

// invalid returns the error about an expression at an offset of the body.
func (t *Template) invalid(line, column int, source, what string) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "%s line %d, column %d: %s %s; %s %s as it is, write $%s",
		t.name, line+t.above, column, quote(source), what, t.seen, source[:2], source[:2])
}

func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

func clipLine(b []byte) []byte {
	line, _, _ := bytes.Cut(b[:min(len(b), maxExpression)], []byte("\n"))
	return bytes.TrimRight(line, "\r")
}

// position converts an offset of the body to line and column, both counted from 1, the column in
// characters.
func position(body []byte, offset int) (line, column int) {
	before := body[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, len([]rune(string(before[start:]))) + 1
}

// Body returns the document without its first line, with its expressions.
func (t *Template) Body() []byte { return t.body }

// Reads reports whether the template reads the request's param of that name.
func (t *Template) Reads(param string) bool { return t.reads["param."+param] }

// Names returns all names that the template reads, such as param.size and vm.name, sorted.
func (t *Template) Names() []string { return slices.Sorted(maps.Keys(t.reads)) }

// At returns the position of the first expression that reads name.
func (t *Template) At(name string) (line, column int) {
	_, field, _ := strings.Cut(name, ".")
	for _, p := range t.parts {
		if p.program != nil && (strings.Contains(p.source, name) || strings.Contains(p.source, `"`+field+`"`)) {
			return p.line + t.above, p.column
		}
	}
	return 1, 1
}

// Gives returns the type of a template that is a single expression. known is false if it has other
// text, or if the type is only known once it is evaluated.
func (t *Template) Gives() (kind Type, known bool) {
	if len(t.parts) != 1 || t.parts[0].program == nil {
		return String, false
	}
	switch out := t.parts[0].out; {
	case out.IsExactType(cel.IntType):
		return Int, true
	case out.IsExactType(cel.BoolType):
		return Bool, true
	case out.IsExactType(cel.StringType):
		return String, true
	}
	return String, false
}
