package intake

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"seedbed"
)

// format is one kind of user-data. cloud-init recognizes it by how it starts.
type format struct {
	prefix string
	// mime is the content type of such a part.
	mime string
	// config is set if the document is, or becomes, cloud-config, whose top-level keys can collide
	// with ours.
	config bool
}

// formats are those that can be a part of a multipart document, longest prefix first as in
// cloudinit/handlers/__init__.py (INCLUSION_TYPES_MAP).
var formats = []format{
	{"#cloud-config-archive", "text/cloud-config-archive", true},
	{"## template: jinja", "text/jinja2", true},
	{"#cloud-boothook", "text/cloud-boothook", false},
	{"#include-once", "text/x-include-once-url", false},
	{"#part-handler", "text/part-handler", false},
	{"#cloud-config", "text/cloud-config", true},
	{"#include", "text/x-include-url", false},
	{"#!", "text/x-shellscript", false},
}

const combinable = "expected a document that starts with #cloud-config, #!, #include, #include-once, #cloud-boothook, " +
	"#part-handler, #cloud-config-archive or ## template: jinja; any bytes are served as they are where nothing is combined: " +
	"with ready metadata or started, and without vendor-data in the user-data"

// formatOf returns the format of an operator's document, or says why it cannot be combined with
// another. name is the document's name in messages. Case and leading white space do not matter, as
// in cloud-init.
func formatOf(name string, data []byte) (format, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return format{}, seedbed.Errorf(seedbed.ErrInvalid, "%s is gzip, which cannot be combined with another part: %s", name, combinable)
	}
	head := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), 8192)], " \t\r\n\v\f"))
	if isMIME(head) {
		return format{}, seedbed.Errorf(seedbed.ErrInvalid, "%s is a MIME document already, which cannot be combined with another part: %s", name,
			combinable)
	}
	if !bytes.HasPrefix(head, []byte("#cloud-config-jsonp")) { // a patch, although the prefix #cloud-config would match
		for _, f := range formats {
			if bytes.HasPrefix(head, []byte(f.prefix)) {
				return f, nil
			}
		}
	}
	what := "does not start in a way that cloud-init knows"
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		what = "is binary"
	}
	return format{}, seedbed.Errorf(seedbed.ErrInvalid, "%s %s, so it cannot be combined with another part: %s", name, what, combinable)
}

// isMIME reports whether head, in lower case, starts with mail headers.
func isMIME(head []byte) bool {
	for _, h := range []string{"mime-version:", "content-type:", "content-transfer-encoding:", "content-disposition:", "from ", "from:",
		"subject:"} {
		if strings.HasPrefix(string(head[:min(len(head), 32)]), h) {
			return true
		}
	}
	return false
}
