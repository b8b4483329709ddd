package outbox

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"io"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/webhook/signature"
)

// Each key signs by its version, and what is signed by v1a is verified with nothing but the public
// key.
func TestVersions(t *testing.T) {
	t.Parallel()
	secret, seed := signature.NewSecret(), signature.NewSeed()
	hmacKey := seedbed.EndpointKey{Version: seedbed.SignV1, Key: secret}
	pair := seedbed.EndpointKey{Version: seedbed.SignV1a, Key: seed, Public: signature.FormatPublic(seed)}
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(pair.Public, "whpk_"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1769860800, 0)
	for name, test := range map[string]struct {
		keys []seedbed.EndpointKey
		want []string
	}{
		"secret":        {[]seedbed.EndpointKey{hmacKey}, []string{"v1"}},
		"before it was": {[]seedbed.EndpointKey{{Key: secret}}, []string{"v1"}},
		"pair":          {[]seedbed.EndpointKey{pair}, []string{"v1a"}},
		"both":          {[]seedbed.EndpointKey{hmacKey, pair}, []string{"v1", "v1a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := request(t.Context(), seedbed.Endpoint{URL: "https://ci.example/", Keys: test.keys},
				seedbed.Outgoing{ID: "msg_1", Data: []byte(`{}`)}, at)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for entry := range strings.SplitSeq(req.Header.Get("webhook-signature"), " ") {
				version, text, _ := strings.Cut(entry, ",")
				got = append(got, version)
				raw, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					t.Fatal(err)
				}
				good := version == "v1" && entry == signature.Sign(secret, "msg_1", at, body) ||
					version == "v1a" && ed25519.Verify(public, append([]byte("msg_1.1769860800."), body...), raw)
				if !good {
					t.Errorf("%s does not verify", entry)
				}
			}
			if strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("signed with %v, want %v", got, test.want)
			}
		})
	}
	if bytes.Contains([]byte(pair.Public), seed) || len(public) != ed25519.PublicKeySize {
		t.Errorf("public key %s", pair.Public)
	}
}
