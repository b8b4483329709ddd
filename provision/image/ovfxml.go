package image

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"seedbed"
)

// element is one element of an OVF descriptor. Names are compared by the URI of their namespace,
// because each writer chooses its own prefixes.
type element struct {
	name  xml.Name
	attrs []xml.Attr
	text  []byte
	inner []*element
}

// Limits of a descriptor, which is normally a few pages of text.
const (
	maxOVF      = 4 * seedbed.MiB
	maxElements = 20_000
	maxDepth    = 64
	// ctxTokens is after how many pieces of the document its context is looked at.
	ctxTokens = 1000
)

// The namespaces of OVF 1.x and 2.x envelopes, and the beginning of those of CIM classes.
var envelopes = []string{"http://schemas.dmtf.org/ovf/envelope/1", "http://schemas.dmtf.org/ovf/envelope/2"}

const cimClasses = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_"

// parseXML reads a document. Only XML's five own entities are known, so no other is expanded. It takes
// a time that grows with the length, however the text is cut into pieces, and returns the error of ctx
// if that ends.
func parseXML(ctx context.Context, text []byte) (*element, error) {
	if seedbed.Bytes(len(text)) > maxOVF {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "has an OVF descriptor of %d bytes: expected at most %s", len(text), maxOVF)
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	var open []*element
	var root *element
	count := 0
	for tokens := 0; ; tokens++ {
		if tokens%ctxTokens == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "has an OVF descriptor that is not well-formed XML: %s", seedbed.Clip(err.Error()))
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name, attrs: slices.Clone(token.Attr)}
			if count++; count > maxElements || len(open) >= maxDepth {
				return nil, invalid("has an OVF descriptor of more elements than any machine needs")
			}
			switch {
			case len(open) > 0:
				up := open[len(open)-1]
				up.inner = append(up.inner, e)
			case root != nil:
				return nil, invalid("has an OVF descriptor with two root elements")
			default:
				root = e
			}
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1] // the decoder has checked that it matches
		case xml.CharData:
			if len(open) > 0 {
				up := open[len(open)-1]
				up.text = append(up.text, token...)
			}
		}
	}
	if root == nil {
		return nil, invalid("has an OVF descriptor without elements")
	}
	return root, nil
}

// ovf reports whether the element has that name in the envelope's namespace.
func (e *element) ovf(name string) bool {
	return e.name.Local == name && slices.Contains(envelopes, e.name.Space)
}

// all returns the children of that name in the envelope's namespace.
func (e *element) all(name string) []*element {
	var found []*element
	for _, c := range e.inner {
		if c.ovf(name) {
			found = append(found, c)
		}
	}
	return found
}

// find returns the first element of that name in the envelope's namespace, at any depth.
func (e *element) find(name string) *element {
	if e.ovf(name) {
		return e
	}
	for _, c := range e.inner {
		if f := c.find(name); f != nil {
			return f
		}
	}
	return nil
}

// attr returns an attribute in the envelope's namespace, or without a namespace.
func (e *element) attr(name string) string {
	for _, a := range e.attrs {
		if a.Name.Local == name && (a.Name.Space == "" || slices.Contains(envelopes, a.Name.Space)) {
			return strings.TrimSpace(a.Value)
		}
	}
	return ""
}

// any returns an attribute in any namespace: for vendors' own elements.
func (e *element) any(name string) string {
	for _, a := range e.attrs {
		if a.Name.Local == name {
			return strings.TrimSpace(a.Value)
		}
	}
	return ""
}

// setting returns the first property of that name of a virtual hardware item of any CIM class.
func (e *element) setting(name string) string {
	for _, c := range e.inner {
		if c.name.Local == name && strings.HasPrefix(c.name.Space, cimClasses) {
			return strings.TrimSpace(string(c.text))
		}
	}
	return ""
}
