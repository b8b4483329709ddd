package intake

import (
	"bytes"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The YAML parser takes time and stack in proportion to the square of length and depth. So only a
// document within these limits is parsed; any other is searched line by line.
const (
	yamlMaxSize  = 32 << 10
	yamlMaxDepth = 64
)

// setsKey reports whether a cloud-config document sets the top-level key. It is lenient: it
// searches the lines of a document that is not YAML, because a template becomes YAML later and
// cloud-init itself only warns of a broken one.
func setsKey(doc []byte, key string) bool {
	if m, ok := parseYAML(doc).(*ast.MappingNode); ok {
		_, found := lookup(m, key)
		return found
	}
	return lineSets(doc, key, false)
}

// archiveSetsKey is setsKey for each entry of a #cloud-config-archive.
func archiveSetsKey(doc []byte, key string) bool {
	list, ok := parseYAML(doc).(*ast.SequenceNode)
	if !ok {
		return lineSets(doc, key, true)
	}
	for _, entry := range list.Values {
		content, kind := entry, ""
		if m, ok := entry.(*ast.MappingNode); ok {
			if t, ok := lookup(m, "type"); ok {
				kind, _ = text(t)
			}
			if content, ok = lookup(m, "content"); !ok {
				continue
			}
		}
		s, ok := text(content)
		if !ok {
			return lineSets(doc, key, true) // an alias or a tag, which this function does not resolve
		}
		if f, err := formatOf("", []byte(s)); kind == "" && err == nil {
			kind = f.mime
		}
		if (kind == "" || kind == "text/cloud-config" || kind == "text/jinja2") && setsKey([]byte(s), key) {
			return true
		}
	}
	return false
}

func lookup(m *ast.MappingNode, key string) (ast.Node, bool) {
	for _, v := range m.Values {
		if s, ok := text(v.Key); ok && s == key {
			return v.Value, true
		}
	}
	return nil, false
}

func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// parseYAML returns the root of the first document; nil if the document cannot or must not be
// parsed.
func parseYAML(doc []byte) ast.Node {
	if len(doc) > yamlMaxSize || yamlDepth(doc) > yamlMaxDepth {
		return nil
	}
	file, err := parser.ParseBytes(doc, 0, parser.AllowDuplicateMapKey())
	if err != nil || len(file.Docs) == 0 {
		return nil
	}
	return file.Docs[0].Body
}

// yamlDepth returns a lower bound of doc's nesting depth: brackets, and sequences on one line.
func yamlDepth(doc []byte) int {
	deepest, open := 0, 0
	for line := range bytes.Lines(doc) {
		head := line[:len(line)-len(bytes.TrimLeft(line, " -?"))]
		deepest = max(deepest, bytes.Count(head, []byte("-"))+bytes.Count(head, []byte("?")))
		for _, c := range line {
			switch c {
			case '[', '{':
				open++
				deepest = max(deepest, open)
			case ']', '}':
				open = max(0, open-1)
			}
		}
	}
	return deepest
}

// lineSets reports whether a line sets key, at the left margin or, if indented, anywhere.
func lineSets(doc []byte, key string, indented bool) bool {
	margin := "\"'{"
	if indented {
		margin += " \t,-"
	}
	for rest := doc; ; {
		i := bytes.Index(rest, []byte(key))
		if i < 0 {
			return false
		}
		before := rest[:i]
		before = before[bytes.LastIndexByte(before, '\n')+1:]
		if len(before) <= 256 && len(bytes.Trim(before, margin)) == 0 { // no margin is wider
			after := bytes.TrimLeft(rest[i+len(key):], "\"'")
			if bytes.HasPrefix(bytes.TrimLeft(after[:min(len(after), 256)], " \t"), []byte(":")) {
				return true
			}
		}
		rest = rest[i+len(key):]
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			rest = rest[end:] // the next line's margin is then complete
		} else {
			return false
		}
	}
}
