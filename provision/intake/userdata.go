package intake

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"seedbed"
)

// reportURL returns the address that cloud-init phones home to. The token is its last element. v6 is whether the guest has IPv6 alone.
func reportURL(token string, v6 bool) string {
	host := netip.AddrPortFrom(seedbed.MetadataAddr, 80)
	if v6 {
		host = netip.AddrPortFrom(seedbed.MetadataAddr6, 80)
	}
	return "http://" + strings.TrimSuffix(host.String(), ":80") + "/seedbed/report/" + token
}

// composeUserData makes what the guest is served: data itself, nil if it is empty, or a document of
// several parts if it includes vendor-data or for ReadyReport, to report at that URL. It refuses a result of more than
// limit.
//
// cloud-init merges cloud-config parts in order, each by its own merge_how, by default replacing
// top-level keys (cloudinit/handlers/cloud_config.py). So vendor-data comes first, because the
// operator's part must prevail. Our part comes last: its only key is phone_home, so it replaces
// nothing of the operator's, whose merge_how does not apply to it.
func composeUserData(ready seedbed.Ready, data []byte, report string, limit seedbed.Bytes, vendor ...document) ([]byte, error) {
	parts := append(slices.Clone(vendor), document{"user_data", data})
	if ready == seedbed.ReadyReport {
		parts = append(parts, document{"", reportPart(report)})
	}
	return compose("user_data", limit, ready, parts)
}

// document is a part with its name for messages. Our own part has no name.
type document struct {
	name string
	body []byte
}

// compose returns the only part that is not empty, or all such parts as one document.
func compose(name string, limit seedbed.Bytes, ready seedbed.Ready, docs []document) ([]byte, error) {
	docs = slices.DeleteFunc(docs, func(d document) bool { return len(d.body) == 0 })
	for _, d := range docs { // before anything examines them
		if len(d.body) > int(limit) {
			return nil, tooLarge(name, len(d.body), limit)
		}
	}
	var parts []part
	switch len(docs) {
	case 0:
		return nil, nil
	case 1:
		return docs[0].body, nil
	}
	for _, d := range docs {
		if d.name == "" {
			parts = append(parts, part{"text/cloud-config", d.body})
			continue
		}
		f, err := formatOf(d.name, d.body)
		if err != nil {
			return nil, err
		}
		if ready == seedbed.ReadyReport {
			if err := checkKeys(d.name, f, d.body); err != nil {
				return nil, err
			}
		}
		parts = append(parts, part{f.mime, d.body})
	}
	out := mixed(parts...)
	if len(out) > int(limit) {
		return nil, tooLarge(name, len(out), limit)
	}
	return out, nil
}

func tooLarge(name string, size int, limit seedbed.Bytes) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "%s is %d bytes as it would be served: expected at most %s", name, size, limit)
}

// checkKeys refuses an operator's cloud-config that would prevent the guest from reporting in.
func checkKeys(name string, f format, data []byte) error {
	if !f.config {
		return nil
	}
	sets := setsKey
	if f.mime == "text/cloud-config-archive" {
		sets = archiveSetsKey
	}
	if sets(data, "phone_home") {
		return seedbed.Errorf(seedbed.ErrInvalid,
			"%s has its own phone_home, which ready report needs for itself: remove the key, or choose ready metadata or started", name)
	}
	if sets(data, "cloud_final_modules") && !bytes.Contains(data, []byte("phone-home")) && !bytes.Contains(data, []byte("phone_home")) {
		return seedbed.Errorf(seedbed.ErrInvalid,
			"%s sets cloud_final_modules without phone-home, so the guest would never report in: add phone-home, "+
				"or choose ready metadata or started", name)
	}
	return nil
}

// newReportToken returns the secret of one instance's report path: 32 random hexadecimal digits.
func newReportToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// reportPart returns the part that makes cloud-init post to us at the end of its first boot
// (cloudinit/config/cc_phone_home.py); 10 tries are 3 s apart.
func reportPart(url string) []byte {
	return fmt.Appendf(nil,
		"#cloud-config\nphone_home:\n  url: %s\n  post: [instance_id, hostname, fqdn, pub_key_ed25519]\n  tries: 10\n", url)
}

type part struct {
	mime string
	body []byte
}

// mixed makes a multipart/mixed MIME document (RFC 2046) with LF line ends, as cloud-init's own
// make-mime does. The result depends only on the parts.
func mixed(parts ...part) []byte {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write(p.body)
	}
	boundary := "==seedbed-" + hex.EncodeToString(sum.Sum(nil)[:16]) + "=="
	var b bytes.Buffer
	fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n", boundary)
	for _, p := range parts {
		encoding, body := encodePart(p.body)
		fmt.Fprintf(&b, "\n--%s\nContent-Type: %s; charset=\"utf-8\"\nContent-Transfer-Encoding: %s\n\n", boundary, p.mime, encoding)
		b.Write(body)
	}
	fmt.Fprintf(&b, "\n--%s--\n", boundary)
	return b.Bytes()
}

// encodePart leaves a body unchanged if it is 7-bit text with LF line ends and lines within RFC
// 5322's 998 characters. It encodes any other in base64 with lines of 76.
func encodePart(body []byte) (encoding string, encoded []byte) {
	clean, column := true, 0
	for _, c := range body {
		column++
		if c == '\n' {
			column = 0
		}
		if c >= 0x7f || c < 0x20 && c != '\n' && c != '\t' || column > 998 {
			clean = false
			break
		}
	}
	if clean {
		return "7bit", body
	}
	all := base64.StdEncoding.EncodeToString(body)
	for len(all) > 76 {
		encoded = append(append(encoded, all[:76]...), '\n')
		all = all[76:]
	}
	return "base64", append(encoded, all...)
}
