// Package userdata finds what would make a guest fail on its user-data or vendor-data, before the
// guest does.
package userdata

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"seedbed"
)

const (
	usualLimit = 64 * seedbed.MiB
	maxParts   = 100
	maxNesting = 4
)

// Checker checks documents. The zero value is ready for use.
type Checker struct {
	// Schema returns the errors of a cloud-config according to cloud-init's own schema; nil checks
	// none.
	Schema func(ctx context.Context, config []byte) ([]string, error)
	// Limit is the size up to which a document is looked into, also once it is unpacked. Default
	// 64 MiB.
	Limit seedbed.Bytes
}

// Check returns what is wrong with user-data or vendor-data as it is served, in the words of
// cloud-init's reading. An empty document is right. The error is that of Schema.
func (c Checker) Check(ctx context.Context, body []byte) ([]string, error) {
	if len(body) == 0 {
		return nil, nil
	}
	l := &linter{Checker: c}
	l.Limit = cmp.Or(l.Limit, usualLimit)
	if len(body) > int(l.Limit) {
		return nil, nil
	}
	err := l.content(ctx, body)
	return l.problems, err
}

// Template reports whether a document is a template of Seedbed, which is served only after its
// expressions were replaced.
func Template(body []byte) bool {
	first, _, _ := bytes.Cut(body, []byte("\n"))
	return strings.HasPrefix(strings.ToLower(string(first)), templateMark)
}

const templateMark = "## template: seedbed"

// linter checks one document.
type linter struct {
	Checker
	problems []string
}

func (l *linter) find(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// starts holds the beginnings of the documents that cloud-init accepts
// (cloudinit/handlers/__init__.py, INCLUSION_TYPES_MAP).
var starts = []string{
	"#include", "#include-once", "#!", "#cloud-config", "#upstart-job", "#part-handler", "#cloud-boothook",
	"#cloud-config-archive", "#cloud-config-jsonp", "## template: jinja", "## template:jinja",
}

// windows matches the beginning of a document that is only for cloudbase-init
// (cloudbaseinit/plugins/common/userdatautils.py).
var windows = regexp.MustCompile(`^(?:rem cmd\s|#ps1(?:_sysnative|_x86)?\s|<(?:script|powershell)>)`)

// base64Form matches a document that is one line of base64.
var base64Form = regexp.MustCompile(`^[A-Za-z0-9+/]+={0,2}$`)

// content checks a document of any kind.
func (l *linter) content(ctx context.Context, body []byte) error {
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		zip, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(zip, int64(l.Limit)+1))
		}
		if err != nil || len(body) > int(l.Limit) {
			l.find("starts like gzip but cannot be unpacked, or is larger than %s", l.Limit)
			return nil
		}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if text := strings.TrimSpace(string(body)); len(text)%4 == 0 && base64Form.MatchString(text) {
		l.find("is only base64: recent cloud-init decodes it, older versions do not")
		return nil
	}
	head := strings.ToLower(strings.TrimLeft(string(body[:min(len(body), 4096)]), " \t\r\n\v\f"))
	if strings.Contains(head, "mime-version:") {
		return l.multipart(ctx, body, 0)
	}
	if strings.HasPrefix(head, templateMark) {
		l.find("is a Seedbed template that was not rendered: the marker must be on the first line")
		return nil
	}
	known := false
	for _, s := range starts {
		known = known || strings.HasPrefix(head, s)
	}
	switch {
	case windows.MatchString(head):
	case !known && !utf8.Valid(body):
		l.find("is binary: cloud-init cannot handle it")
	case !known:
		first, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		l.find("begins with %q, which cloud-init does not know: expected #cloud-config, #! or another", clipped(first))
	case strings.HasPrefix(head, "#cloud-config") && !strings.HasPrefix(head, "#cloud-config-"):
		return l.config(ctx, body)
	}
	return nil
}

func clipped(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// multipart checks each part of a MIME document.
func (l *linter) multipart(ctx context.Context, body []byte, depth int) error {
	msg, err := mail.ReadMessage(bytes.NewReader(body))
	if err != nil {
		l.find("has MIME headers that do not end")
		return nil
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		return l.part(ctx, kind, msg.Header.Get("Content-Transfer-Encoding"), msg.Body, depth)
	}
	parts := multipart.NewReader(msg.Body, params["boundary"])
	for n := 1; ; n++ {
		p, err := parts.NextRawPart()
		if err == io.EOF {
			if n == 1 {
				l.find("is a MIME document without parts")
			}
			return nil
		}
		if err != nil || n > maxParts {
			l.find("is a MIME document that does not end after part %d", n-1)
			return nil
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err := l.part(ctx, kind, p.Header.Get("Content-Transfer-Encoding"), p, depth); err != nil {
			return err
		}
	}
}

func (l *linter) part(ctx context.Context, kind, encoding string, r io.Reader, depth int) error {
	switch strings.ToLower(encoding) {
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(l.Limit)))
	switch {
	case err != nil:
		l.find("has a part %s that is not valid %s", kind, encoding)
	case strings.HasPrefix(kind, "multipart/") && depth < maxNesting:
		return l.multipart(ctx, append([]byte("Content-Type: "+kind+"\n\n"), body...), depth+1)
	case kind == "text/cloud-config":
		return l.config(ctx, body)
	case kind == "text/plain" || kind == "":
		return l.content(ctx, body)
	}
	return nil
}

// config checks that a cloud-config is a YAML mapping, and checks it with cloud-init's schema.
func (l *linter) config(ctx context.Context, body []byte) error {
	// A node, and not a value: an alias in a value would be expanded.
	var doc yaml.Node
	if err := yaml.Unmarshal(body, &doc); err != nil {
		l.find("is not YAML: %s", complaint(err))
		return nil
	}
	if len(doc.Content) > 0 && doc.Content[0].Kind != yaml.MappingNode && doc.Content[0].Tag != "!!null" {
		l.find("is cloud-config but not a YAML mapping: cloud-init ignores it")
		return nil
	}
	if l.Schema == nil {
		return nil
	}
	complaints, err := l.Schema(ctx, body)
	for _, c := range complaints {
		l.find("%s", c)
	}
	return err
}

// offByOne matches the errors of the YAML library that count lines from 0. It counts those of its
// scanner, which read otherwise, from 1.
var offByOne = regexp.MustCompile(`^line ([0-9]+): did not find expected`)

// complaint is what the YAML library found.
func complaint(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	m := offByOne.FindStringSubmatchIndex(text)
	if m == nil {
		return text
	}
	line, _ := strconv.Atoi(text[m[2]:m[3]])
	return text[:m[2]] + strconv.Itoa(line+1) + text[m[3]:]
}
