package metadata

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"seedbed"
	"seedbed/internal/command"
)

const (
	maxCommon     = seedbed.MiB      // of a document for any agent
	maxUnpacked   = 64 * seedbed.MiB // of a document that was compressed
	schemaTimeout = 30 * time.Second
	schemaLines   = 20
	schemaWidth   = 500
	maxParts      = 100
	maxNesting    = 4
)

// document checks user-data or vendor-data. If needed is set, 404 is a finding.
func (l *linter) document(ctx context.Context, at string, needed bool) error {
	body, ok, err := l.fetch(ctx, at)
	switch {
	case err != nil:
		return err
	case !ok && needed:
		l.find(at, "answers 404, which costs the guest 10 s: expected 200 with an empty body")
		return nil
	case !ok || len(body) == 0:
		return nil
	case len(body) > int(maxCommon):
		l.find(at, "has %d bytes: Windows and other agents accept less than %s", len(body), maxCommon)
	}
	return l.content(ctx, at, body)
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
func (l *linter) content(ctx context.Context, at string, body []byte) error {
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		zip, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(zip, int64(maxUnpacked)+1))
		}
		if err != nil || len(body) > int(maxUnpacked) {
			l.find(at, "starts like gzip but cannot be unpacked, or is larger than %s", maxUnpacked)
			return nil
		}
	}
	if text := strings.TrimSpace(string(body)); len(text)%4 == 0 && base64Form.MatchString(text) {
		l.find(at, "is only base64: recent cloud-init decodes it, older versions do not")
		return nil
	}
	head := strings.ToLower(strings.TrimLeft(string(body[:min(len(body), 4096)]), " \t\r\n\v\f"))
	if strings.Contains(head, "mime-version:") {
		return l.multipart(ctx, at, body, 0)
	}
	if strings.HasPrefix(head, "## template: seedbed") {
		l.find(at, "is a Seedbed template that was not rendered: the marker must be on the first line")
		return nil
	}
	known := false
	for _, s := range starts {
		known = known || strings.HasPrefix(head, s)
	}
	switch {
	case windows.MatchString(head):
	case !known && !utf8.Valid(body):
		l.find(at, "is binary: cloud-init cannot handle it")
	case !known:
		first, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		l.find(at, "begins with %q, which cloud-init does not know: expected #cloud-config, #! or another", clipped(first))
	case strings.HasPrefix(head, "#cloud-config") && !strings.HasPrefix(head, "#cloud-config-"):
		return l.config(ctx, at, body)
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
func (l *linter) multipart(ctx context.Context, at string, body []byte, depth int) error {
	msg, err := mail.ReadMessage(bytes.NewReader(body))
	if err != nil {
		l.find(at, "has MIME headers that do not end")
		return nil
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		return l.part(ctx, at, kind, msg.Header.Get("Content-Transfer-Encoding"), msg.Body, depth)
	}
	parts := multipart.NewReader(msg.Body, params["boundary"])
	for n := 1; ; n++ {
		p, err := parts.NextRawPart()
		if err == io.EOF {
			if n == 1 {
				l.find(at, "is a MIME document without parts")
			}
			return nil
		}
		if err != nil || n > maxParts {
			l.find(at, "is a MIME document that does not end after part %d", n-1)
			return nil
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err := l.part(ctx, at, kind, p.Header.Get("Content-Transfer-Encoding"), p, depth); err != nil {
			return err
		}
	}
}

func (l *linter) part(ctx context.Context, at, kind, encoding string, r io.Reader, depth int) error {
	switch strings.ToLower(encoding) {
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(maxUnpacked)))
	switch {
	case err != nil:
		l.find(at, "has a part %s that is not valid %s", kind, encoding)
	case strings.HasPrefix(kind, "multipart/") && depth < maxNesting:
		return l.multipart(ctx, at, append([]byte("Content-Type: "+kind+"\n\n"), body...), depth+1)
	case kind == "text/cloud-config":
		return l.config(ctx, at, body)
	case kind == "text/plain" || kind == "":
		return l.content(ctx, at, body)
	}
	return nil
}

// config checks that a cloud-config is a YAML mapping, and checks it with cloud-init's schema.
func (l *linter) config(ctx context.Context, at string, body []byte) error {
	var doc any
	if err := yaml.Unmarshal(body, &doc); err != nil {
		l.find(at, "is not YAML: %s", strings.TrimSpace(yaml.FormatError(err, false, false)))
		return nil
	}
	if _, mapping := doc.(map[string]any); !mapping && doc != nil {
		l.find(at, "is cloud-config but not a YAML mapping: cloud-init ignores it")
		return nil
	}
	if l.schema == nil {
		return nil
	}
	complaints, err := l.schema(ctx, body)
	for _, c := range complaints {
		l.find(at, "%s", c)
	}
	return err
}

// schemaBy returns a function that checks a cloud-config with the schema of the cloud-init
// installed as tool.
func schemaBy(tool string) func(context.Context, []byte) ([]string, error) {
	return func(ctx context.Context, config []byte) ([]string, error) {
		dir, err := os.MkdirTemp("", "seedbed-lint-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "user-data")
		if !bytes.HasPrefix(config, []byte("#cloud-config")) {
			config = append([]byte("#cloud-config\n"), config...) // the kind of a part is in its header
		}
		if err := os.WriteFile(file, config, 0o600); err != nil {
			return nil, err
		}
		out, err := command.Run(ctx, command.Command{Name: tool, Args: []string{"schema", "--config-file", file}, Timeout: schemaTimeout})
		if err == nil || errors.Is(err, seedbed.ErrUnavailable) {
			return nil, nil
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return nil, fmt.Errorf("cloud-init schema: %w", err)
		}
		return complaints(string(out.Stderr)+"\n"+string(out.Stdout), file), nil
	}
}

// complaints returns cloud-init's messages about a file, without those that it prints for every
// file.
func complaints(text, file string) (all []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.ReplaceAll(line, file, "the document"))
		for _, opening := range []string{
			"Error:", "Cloud config schema errors:", "Cloud config schema deprecations:",
			"Invalid cloud-config schema: user-data", "Invalid user-data",
		} {
			line = strings.TrimSpace(strings.TrimPrefix(line, opening))
		}
		if line != "" && len(all) < schemaLines {
			all = append(all, "cloud-init schema: "+strings.ToValidUTF8(line[:min(len(line), schemaWidth)], ""))
		}
	}
	if all == nil {
		all = []string{"cloud-init schema refuses it"}
	}
	return all
}
