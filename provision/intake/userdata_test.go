package intake

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

const testToken = "0123456789abcdef0123456789abcdef"

const ourPart = "#cloud-config\nphone_home:\n  url: http://169.254.169.254/seedbed/report/" + testToken +
	"\n  post: [instance_id, hostname, fqdn, pub_key_ed25519]\n  tries: 10\n"

func TestComposeReport(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, data, kind string }{
		{"cloud-config", "#cloud-config\nruncmd: [echo hi]\n", "text/cloud-config"},
		{"no final line end", "#cloud-config\nruncmd: [echo hi]", "text/cloud-config"},
		{"several final line ends", "#!/bin/sh\necho\n\n\n", "text/x-shellscript"},
		{"carriage returns", "#!/bin/sh\r\necho\r\n", "text/x-shellscript"},
		{"ends with a carriage return", "#!/bin/sh\necho\r", "text/x-shellscript"},
		{"script", "#!/bin/sh\necho phone_home: 1\n", "text/x-shellscript"},
		{"binary script", "#!/bin/sh\nexit\n\x00\xff\xfe", "text/x-shellscript"},
		{"latin-1", "#!/bin/sh\necho M\xfcnchen\n", "text/x-shellscript"},
		{"utf-8", "#cloud-config\nmotd: Grüße\n", "text/cloud-config"},
		{"long line", "#!/bin/sh\n# " + strings.Repeat("x", 1200) + "\n", "text/x-shellscript"},
		{"include", "#include\nhttp://example.com/a\n", "text/x-include-url"},
		{"include-once", "#include-once\nhttp://example.com/a\n", "text/x-include-once-url"},
		{"boothook", "#cloud-boothook\n#!/bin/sh\n", "text/cloud-boothook"},
		{"part handler", "#part-handler\ndef list_types(): pass\n", "text/part-handler"},
		{"archive", "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    a: 1\n", "text/cloud-config-archive"},
		{"jinja", "## template: jinja\n#cloud-config\nhostname: {{ v1.local_hostname }}\n", "text/jinja2"},
		{"case and white space", "\n  #Cloud-Config\na: 1\n", "text/cloud-config"},
		{"nested phone_home", "#cloud-config\nwrite_files:\n- path: /x\n  content: |\n    phone_home:\n", "text/cloud-config"},
		{"phone_home as a value", "#cloud-config\na: phone_home\nb: 'phone_home:'\n", "text/cloud-config"},
		{"comment", "#cloud-config\n# phone_home: x\na: 1\n", "text/cloud-config"},
		{"archive with a script that says phone_home",
			"#cloud-config-archive\n- |\n  #!/bin/sh\n  phone_home: x\n- {type: text/x-shellscript, content: \"phone_home: x\"}\n",
			"text/cloud-config-archive"},
		{"final modules with ours", "#cloud-config\ncloud_final_modules: [scripts-user, phone-home]\n", "text/cloud-config"},
		{"only the header", "#cloud-config\n", "text/cloud-config"},
		{"boundary look-alike", "#!/bin/sh\n--==seedbed-00==\n", "text/x-shellscript"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			doc, err := composeUserData(seedbed.ReadyReport, []byte(tt.data), reportURL(testToken, false), seedbed.MiB)
			if err != nil {
				t.Fatal(err)
			}
			want := []readPart{{tt.kind, tt.data}, {"text/cloud-config", ourPart}}
			if d := cmp.Diff(want, readMIME(t, doc)); d != "" {
				t.Errorf("parts (-want +got):\n%s\n%s", d, doc)
			}
			again, _ := composeUserData(seedbed.ReadyReport, []byte(tt.data), reportURL(testToken, false), seedbed.MiB)
			if !bytes.Equal(doc, again) {
				t.Error("two runs differ")
			}
			if i := bytes.Index(bytes.ToLower(doc), []byte("mime-version:")); i < 0 || i > 4096-13 {
				t.Errorf("cloud-init would not see that it is MIME (at %d)", i)
			}
		})
	}
}

func TestComposeRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, data, want string }{
		{"gzip", "\x1f\x8b\x08\x00", "gzip"},
		{"multipart", "Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n\n--x--\n", "MIME document already"},
		{"mime first", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n", "MIME document already"},
		{"mbox", "From nobody Mon Jan 1\nMIME-Version: 1.0\n", "MIME document already"},
		{"binary", "\x7fELF\x00\x01", "binary"},
		{"text", "hello\n", "does not start"},
		{"yaml without header", "runcmd: []\n", "does not start"},
		{"jsonp", "#cloud-config-jsonp\n[]\n", "does not start"},
		{"byte order mark", "\ufeff#cloud-config\n", "does not start"},
		{"own phone_home", "#cloud-config\na: 1\nphone_home:\n  url: http://x/\n", "its own phone_home"},
		{"quoted", "#cloud-config\n\"phone_home\": {url: http://x/}\n", "its own phone_home"},
		{"flow", "#cloud-config\n{a: 1, phone_home: {url: http://x/}}\n", "its own phone_home"},
		{"duplicate keys", "#cloud-config\na: 1\na: 2\nphone_home: {}\n", "its own phone_home"},
		{"after a document start", "#cloud-config\n---\nphone_home: {}\n", "its own phone_home"},
		{"no YAML", "#cloud-config\na: [1\nphone_home: {}\n", "its own phone_home"},
		{"jinja", "## template: jinja\n#cloud-config\n{% if x %}\nphone_home: {}\n{% endif %}\n", "its own phone_home"},
		{"archive", "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    phone_home: {}\n", "its own phone_home"},
		{"archive, plain", "#cloud-config-archive\n- |\n  #cloud-config\n  phone_home: {}\n", "its own phone_home"},
		{"archive, no type", "#cloud-config-archive\n- content: |\n    phone_home: {}\n", "its own phone_home"},
		{"archive, no YAML", "#cloud-config-archive\n- [content: |\n    phone_home: {}\n", "its own phone_home"},
		{"large", "#cloud-config\n" + strings.Repeat("key: value\n", 20000) + "phone_home: {}\n", "its own phone_home"},
		{"final modules", "#cloud-config\ncloud_final_modules: [scripts-user]\n", "cloud_final_modules"},
		{"too large", "#!/bin/sh\n" + strings.Repeat("#\n", 1<<19), "at most 1MiB"},
		{"too large once encoded", "#!/bin/sh\n\xff" + strings.Repeat("#", 900<<10), "at most 1MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := composeUserData(seedbed.ReadyReport, []byte(tt.data), reportURL(testToken, false), seedbed.MiB)
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want one that says %q", err, tt.want)
			}
		})
	}
}

func TestComposeOthers(t *testing.T) {
	t.Parallel()
	gz := "\x1f\x8b\x08\x00"
	tests := []struct {
		name, data string
		ready      seedbed.Ready
		want       []byte
	}{
		{"report without user-data", "", seedbed.ReadyReport, []byte(ourPart)},
		{"metadata without user-data", "", seedbed.ReadyMetadata, nil},
		{"started without user-data", "", seedbed.ReadyStarted, nil},
		{"metadata, any bytes", gz, seedbed.ReadyMetadata, []byte(gz)},
		{"started, any bytes", "hello", seedbed.ReadyStarted, []byte("hello")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := composeUserData(tt.ready, []byte(tt.data), reportURL(testToken, false), seedbed.MiB)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	if _, err := composeUserData(seedbed.ReadyStarted, make([]byte, seedbed.MiB+1), reportURL(testToken, false),
		seedbed.MiB); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("too large for any policy: got %v", err)
	}
}

// TestUserDataCost checks that examining a document of the largest size takes little time and
// stack.
func TestUserDataCost(t *testing.T) {
	t.Parallel()
	n := int(seedbed.MiB) - 4096
	for name, body := range map[string]string{
		"brackets": strings.Repeat("[", n), "dashes": strings.Repeat("- ", n/2), "questions": strings.Repeat("? ", n/2),
		"keys": strings.Repeat("k: v\n", n/5), "braces": strings.Repeat("{a: ", n/4), "quote": "\"" + strings.Repeat("x ", n/2),
		"small dashes": strings.Repeat("- ", 30<<10), "small keys": strings.Repeat("k: v\n", 12<<10), "anchors": strings.Repeat("&a ", 20<<10),
		"small tags": strings.Repeat("!a ", 20<<10), "colons": strings.Repeat("a: ", 20<<10),
		"small indents": indents(60 << 10), "pipes": strings.Repeat("a: |\n b\n", 7<<10),
		"small commas": "[" + strings.Repeat(",", 60<<10), "small open": strings.Repeat("[a,", 60),
		"comments": strings.Repeat("#\n", 30<<10), "spaces": strings.Repeat(" ", 60<<10),
		"lines": strings.Repeat("\n", 60<<10), "dashed lines": strings.Repeat("-\n", 30<<10),
		"documents": strings.Repeat("---\n", 15<<10), "aliases": "a: &a x\nb: [" + strings.Repeat("*a,", 20<<10) + "]",
	} {
		for _, head := range []string{"#cloud-config\n", "#cloud-config-archive\n"} {
			began := time.Now()
			composeUserData(seedbed.ReadyReport, []byte(head+body), reportURL(testToken, false), seedbed.MiB)
			if d := time.Since(began); d > 20*time.Second { // milliseconds, unless the time grows with the square
				t.Errorf("%s%s: %s", head, name, d)
			}
		}
	}
}

func indents(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func FuzzComposeUserData(f *testing.F) {
	f.Add([]byte("#cloud-config\nphone_home: {}\n"))
	f.Add([]byte("#cloud-config-archive\n- a\n- {content: b, type: text/x-shellscript}\n"))
	f.Add([]byte("#!/bin/sh\r\necho\r"))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := composeUserData(seedbed.ReadyReport, data, reportURL(testToken, false), seedbed.MiB)
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if len(data) == 0 {
			return
		}
		parts := readMIME(t, doc)
		if len(parts) != 2 || parts[0].Body != string(data) || parts[1].Body != ourPart {
			t.Fatalf("parts of %q: %q", data, parts)
		}
	})
}
