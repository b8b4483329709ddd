package metadata

import "strings"

const (
	typeText = "text/plain"
	typeData = "application/octet-stream"
)

// node is one element of the compiled tree: a leaf, or a directory with fixed
// nodes, or a directory whose nodes depend on the record.
type node struct {
	// name is the path element, and line what its directory lists.
	name, line string
	// value is the leaf function: false means that this record has no such leaf.
	value func(*record) ([]byte, bool)
	// mediaType is the leaf's Content-Type; empty is text/plain.
	mediaType string
	nodes     []*node
	each      func(*record) []*node
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

func dir(name string, nodes ...*node) *node {
	return &node{name: name, line: name + "/", nodes: nodes}
}

// children are the nodes of a directory, present or not.
func (n *node) children(r *record) []*node {
	if n.each != nil {
		return n.each(r)
	}
	return n.nodes
}

// present tells whether the record has the leaf, or anything below the directory.
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

// listing is one line per present child, LF between them and none at the end.
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
	return b, found
}

// find walks a path below n. Empty elements do not count, so a directory or leaf
// answers with and without a final slash and nothing needs a redirect.
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
	for _, c := range n.children(r) {
		if c.name == name {
			return c
		}
	}
	return nil
}

// answer is what a path gives for one record.
type answer struct {
	body      []byte
	mediaType string
	// ok is false when there is nothing at the path.
	ok bool
	// listing is true for a directory below a version; userData for the user-data leaf, there or not.
	listing, userData bool
}

// get is what r has at path, which starts at the root of the service.
func get(r *record, path string) answer {
	version, rest := "", path
	for version == "" && rest != "" {
		version, rest, _ = strings.Cut(rest, "/")
	}
	if version == "" {
		return answer{body: versionList, mediaType: typeText, ok: true}
	}
	if !isVersion(version) {
		return answer{}
	}
	n := tree.find(r, rest)
	if n == nil {
		return answer{}
	}
	a := answer{mediaType: typeText, userData: n == userDataLeaf}
	if n.value == nil {
		a.body, a.ok = n.listing(r)
		a.listing = a.ok
		return a
	}
	if n.mediaType != "" {
		a.mediaType = n.mediaType
	}
	a.body, a.ok = n.value(r)
	return a
}
