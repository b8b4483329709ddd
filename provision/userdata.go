package provision

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"seedbed"
)

// MaxUserData is the largest document that a guest is served.
const MaxUserData = seedbed.MiB

// reportURL is where cloud-init phones home; the token is the last element.
const reportURL = "http://169.254.169.254/seedbed/report/"

// CheckUserData checks an operator's user-data for a profile with that policy:
// any bytes up to MaxUserData, and for ReadyReport a document that can be
// combined with ours. The error is of kind seedbed.ErrInvalid.
func CheckUserData(ready seedbed.Ready, data []byte) error {
	_, err := composeUserData(ready, data, "00000000000000000000000000000000")
	return err
}

// composeUserData makes what the guest is served: data itself, nil when it is
// empty, or for ReadyReport a document of the operator's part and ours.
//
// cloud-init merges cloud-config parts in order, each by its own merge_how, by
// default replacing top-level keys (cloudinit/handlers/cloud_config.py). Ours
// comes last and has the single key phone_home, so it takes nothing from the
// operator's, whose merge_how does not reach it.
func composeUserData(ready seedbed.Ready, data []byte, token string) ([]byte, error) {
	out := data
	switch {
	case len(data) == 0 && ready == seedbed.ReadyReport:
		out = reportPart(token)
	case len(data) == 0:
		out = nil
	case len(data) > int(MaxUserData): // before anything looks into it
	case ready == seedbed.ReadyReport:
		f, err := formatOf(data)
		if err != nil {
			return nil, err
		}
		if err := checkKeys(f, data); err != nil {
			return nil, err
		}
		out = mixed(part{f.mime, data}, part{"text/cloud-config", reportPart(token)})
	}
	if len(out) > int(MaxUserData) {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "user_data is %d bytes as it would be served: want at most %s", len(out), MaxUserData)
	}
	return out, nil
}

// checkKeys refuses an operator's cloud-config that would keep the guest from
// reporting in.
func checkKeys(f format, data []byte) error {
	if !f.config {
		return nil
	}
	sets := setsKey
	if f.mime == "text/cloud-config-archive" {
		sets = archiveSetsKey
	}
	if sets(data, "phone_home") {
		return seedbed.Errorf(seedbed.ErrInvalid, "user_data has its own phone_home, which ready report needs for itself: remove the key, or choose ready metadata or started")
	}
	if sets(data, "cloud_final_modules") && !bytes.Contains(data, []byte("phone-home")) && !bytes.Contains(data, []byte("phone_home")) {
		return seedbed.Errorf(seedbed.ErrInvalid, "user_data sets cloud_final_modules without phone-home, so the guest would never report in: add phone-home, or choose ready metadata or started")
	}
	return nil
}

// newReportToken draws the secret of one instance's report path: 32 hexadecimal digits.
func newReportToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// reportPart has cloud-init post to us at the end of its first boot
// (cloudinit/config/cc_phone_home.py); 10 tries are 3 s apart.
func reportPart(token string) []byte {
	return fmt.Appendf(nil, "#cloud-config\nphone_home:\n  url: %s%s\n  post: [instance_id, hostname, fqdn]\n  tries: 10\n", reportURL, token)
}

type part struct {
	mime string
	body []byte
}

// mixed makes a multipart/mixed MIME document (RFC 2046) with LF line ends, as cloud-init's
// own make-mime does. It depends on the parts alone.
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

// encodePart leaves a body as it is when it is 7-bit text with LF line ends and
// lines within RFC 5322's 998 characters; any other is base64 in lines of 76.
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
