package metadata

import (
	"net/url"
	"strings"
)

const (
	typeText = "text/plain"
	typeData = "application/octet-stream"
	typeJSON = "application/json"
)

// node is one element of a compiled tree: a leaf, or a directory with fixed nodes, or a directory
// whose nodes depend on the record.
type node struct {
	// name is the path element, and line how its directory lists it.
	name, line string
	// value returns the content of the leaf; false means that the record does not have it.
	value func(*record) ([]byte, bool)
	// mediaType is the leaf's Content-Type; empty means text/plain.
	mediaType string
	nodes     []*node
	each      func(*record) []*node
	// escaped is true for a directory below which names may be percent-encoded, as clients encode
	// special characters in the key of a tag.
	escaped bool
	// open is true for a directory that is served empty if the record has nothing below it. Like
	// others, it is then not listed.
	open bool
}

func leaf(name string, value func(*record) ([]byte, bool)) *node {
	return &node{name: name, line: name, value: value}
}

func text(name string, value func(*record) string) *node {
	return leaf(name, func(r *record) ([]byte, bool) {
		s := value(r)
		return []byte(s), s != ""
	})
}

// constant returns a leaf that every record has, with the same value.
func constant(name, value string) *node {
	b := []byte(value)
	return leaf(name, func(*record) ([]byte, bool) { return b, true })
}

func dir(name string, nodes ...*node) *node {
	return &node{name: name, line: name + "/", nodes: nodes}
}

// each returns a directory whose nodes depend on the record.
func each(name string, nodes func(*record) []*node) *node {
	return &node{name: name, line: name + "/", each: nodes}
}

// as sets the Content-Type of a leaf.
func (n *node) as(mediaType string) *node {
	n.mediaType = mediaType
	return n
}

// plain makes a directory be listed without a slash.
func plain(n *node) *node {
	n.line = n.name
	return n
}

// children returns the nodes of a directory, present or not.
func (n *node) children(r *record) []*node {
	if n.each != nil {
		return n.each(r)
	}
	return n.nodes
}

// present reports whether the record has the leaf, or anything below the directory.
func (n *node) present(r *record) bool {
	if n.value != nil {
		_, ok := n.value(r)
		return ok
	}
	for _, c := range n.children(r) {
		if c.present(r) {
			return true
		}
	}
	return false
}

// listing returns one line per present child, separated by LF, with none at the end.
func (n *node) listing(r *record) ([]byte, bool) {
	var b []byte
	found := false
	for _, c := range n.children(r) {
		if !c.present(r) {
			continue
		}
		if found {
			b = append(b, '\n')
		}
		b = append(b, c.line...)
		found = true
	}
	return b, found || n.open
}

// find returns the node at a path below n. Empty elements do not count, so a directory or leaf is
// found with and without a final slash, and redirects are not needed.
func (n *node) find(r *record, path string) *node {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		if name == "" {
			continue
		}
		if n = n.child(r, name); n == nil {
			return nil
		}
	}
	return n
}

func (n *node) child(r *record, name string) *node {
	if n.escaped && strings.IndexByte(name, '%') >= 0 {
		plain, err := url.PathUnescape(name)
		if err != nil {
			return nil
		}
		name = plain
	}
	for _, c := range n.children(r) {
		if c.name == name {
			return c
		}
	}
	return nil
}

// answer is the result of a path for one record.
type answer struct {
	node      *node // nil for lists of versions and if nothing is there
	body      []byte
	mediaType string
	// ok is false if nothing is at the path.
	ok bool
	// crawl is true for what clients request first in a crawl.
	crawl bool
}

// answer returns what r has at a path below n.
func (n *node) answer(r *record, path string) answer {
	found := n.find(r, path)
	if found == nil {
		return answer{}
	}
	a := answer{node: found, mediaType: typeText}
	if found.value == nil {
		a.body, a.ok = found.listing(r)
		a.crawl = true
	} else {
		a.body, a.ok = found.value(r)
	}
	if !a.ok {
		return answer{node: found}
	}
	if found.mediaType != "" {
		a.mediaType = found.mediaType
	}
	return a
}
