package libvirt

import (
	"encoding/xml"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// schemaDir generates testdata/schema.txt from libvirt's own schemas:
//
//	go test ./provision/libvirt -run TestSchema -schema /usr/share/libvirt/schemas
var schemaDir = flag.String("schema", "", "the directory of libvirt's schemas, to write testdata/schema.txt")

const schemaFile = "testdata/schema.txt"

// TestSchema writes the list of all elements and attributes of a domain, with the values of those
// that are enumerated.
func TestSchema(t *testing.T) {
	t.Parallel()
	if *schemaDir == "" {
		if _, err := os.Stat(schemaFile); err != nil {
			t.Error(err)
		}
		return
	}
	g := grammar{defines: map[string][]*node{}, found: map[string]bool{}, dir: *schemaDir}
	g.read(t, "domain.rng")
	g.walk(t, &node{XMLName: xml.Name{Local: "ref"}, Name: "domain"}, "", nil)
	lines := slices.Sorted(maps.Keys(g.found))
	if err := os.WriteFile(schemaFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// node is an element of a RELAX NG schema.
type node struct {
	XMLName xml.Name
	Name    string  `xml:"name,attr"`
	Href    string  `xml:"href,attr"`
	Text    string  `xml:",chardata"`
	Inner   []*node `xml:",any"`
}

// grammar is a schema with all that it includes.
type grammar struct {
	dir     string
	defines map[string][]*node
	found   map[string]bool
}

func (g *grammar) read(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	var root node
	if err := xml.Unmarshal(text, &root); err != nil {
		t.Fatal(name, err)
	}
	g.define(t, &root)
}

func (g *grammar) define(t *testing.T, root *node) {
	t.Helper()
	for _, n := range root.Inner {
		switch n.XMLName.Local {
		case "include":
			g.read(t, n.Href)
			g.define(t, n)
		case "define":
			g.defines[n.Name] = append(g.defines[n.Name], n)
		}
	}
}

// walk adds what the node allows at the path. refs are the definitions that the path went through.
func (g *grammar) walk(t *testing.T, n *node, path string, refs []string) {
	t.Helper()
	switch n.XMLName.Local {
	case "ref":
		if slices.Contains(refs, n.Name) {
			return
		}
		for _, d := range g.defines[n.Name] {
			for _, in := range d.Inner {
				g.walk(t, in, path, append(slices.Clip(refs), n.Name))
			}
		}
		return
	case "element", "attribute":
		names, inner := []string{n.Name}, n.Inner
		if n.Name == "" {
			names, inner = namesOf(n.Inner[0]), n.Inner[1:]
		}
		for _, name := range names {
			at := name
			if n.XMLName.Local == "attribute" {
				at = "@" + name
			}
			if path != "" {
				at = path + "/" + at
			}
			g.found[at] = true
			for _, in := range inner {
				g.walk(t, in, at, refs)
			}
		}
		return
	case "value":
		g.found[path+"="+strings.TrimSpace(n.Text)] = true
		return
	case "data", "text", "empty", "param":
		return
	}
	for _, in := range n.Inner {
		g.walk(t, in, path, refs)
	}
}

// namesOf returns the names of a class of names; any name is none.
func namesOf(n *node) []string {
	switch n.XMLName.Local {
	case "name":
		return []string{strings.TrimSpace(n.Text)}
	case "choice":
		var all []string
		for _, in := range n.Inner {
			all = append(all, namesOf(in)...)
		}
		return all
	}
	return nil
}
