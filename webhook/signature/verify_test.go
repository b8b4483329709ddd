package signature

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/header"
)

// The vector of the Standard Webhooks specification.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTimestamp = "1614265330"
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	vectorV1A       = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
)

var vectorTime = time.Unix(1614265330, 0)

func vectorKey(t testing.TB) []byte {
	t.Helper()
	key, err := ParseSecret(vectorSecret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSignVector(t *testing.T) {
	t.Parallel()
	if got := Sign(vectorKey(t), vectorID, vectorTime, []byte(vectorBody)); got != vectorSignature {
		t.Errorf("signature %s, want %s", got, vectorSignature)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	key := NewSecret()
	back, err := ParseSecret(FormatSecret(key))
	if err != nil || !bytes.Equal(back, key) {
		t.Errorf("round trip: %v", err)
	}
	std := base64.StdEncoding.EncodeToString
	for name, s := range map[string]string{
		"empty":          "",
		"prefix alone":   "whsec_",
		"no prefix":      std(bytes.Repeat([]byte{1}, 32)),
		"asymmetric":     "whsk_" + std(bytes.Repeat([]byte{1}, 32)),
		"too short":      "whsec_" + std(bytes.Repeat([]byte{1}, MinKey-1)),
		"too long":       "whsec_" + std(bytes.Repeat([]byte{1}, MaxKey+1)),
		"no padding":     "whsec_" + base64.RawStdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32)),
		"url alphabet":   "whsec_" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{255}, 33)),
		"line break":     "whsec_MfKQ9r8GKYqr\nTwjUPD8ILPZIo2LaLaSw",
		"trailing space": vectorSecret + " ",
		"trailing bits":  "whsec_" + strings.TrimSuffix(std(bytes.Repeat([]byte{0}, 31)), "A=") + "B=",
	} {
		if key, err := ParseSecret(s); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%s: key %x, error %v, want ErrInvalid", name, key, err)
		} else if len(s) > 10 && strings.Contains(err.Error(), strings.TrimSpace(s[6:])) {
			t.Errorf("%s: the error holds the secret: %v", name, err)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	key := vectorKey(t)
	other := bytes.Repeat([]byte{7}, 32)
	bad := Sign(other, vectorID, vectorTime, []byte(vectorBody))
	tests := []struct {
		name       string
		key        []byte
		id, ts     string
		signatures string
		body       string
		now        time.Time
		ok         bool
	}{
		{name: "vector", ok: true},
		{name: "second of two", signatures: bad + " " + vectorSignature, ok: true},
		{name: "first of two", signatures: vectorSignature + " " + bad, ok: true},
		{name: "beside v1a", signatures: vectorV1A + " " + vectorSignature, ok: true},
		{name: "sixteenth", signatures: strings.Repeat(bad+" ", 15) + vectorSignature, ok: true},
		{name: "seventeenth", signatures: strings.Repeat(bad+" ", 16) + vectorSignature},
		{name: "v1a alone", signatures: vectorV1A},
		{name: "v1 MAC as v1a", signatures: strings.Replace(vectorSignature, "v1", "v1a", 1)},
		{name: "upper-case version", signatures: strings.Replace(vectorSignature, "v1", "V1", 1)},
		{name: "none", signatures: "none,"},
		{name: "SHA-1 of GitHub", signatures: "sha1=0123456789012345678901234567890123456789"},
		{name: "other key", signatures: bad},
		{name: "other body", body: vectorBody + " "},
		{name: "other id", id: "msg_other"},
		{name: "other timestamp", ts: "1614265331"},
		{name: "empty key", key: []byte{}, signatures: Sign(nil, vectorID, vectorTime, []byte(vectorBody))},
		{name: "short key", key: make([]byte, 23), signatures: Sign(make([]byte, 23), vectorID, vectorTime, []byte(vectorBody))},
		{name: "dot shift into the id", id: "msg." + vectorTimestamp, body: "{}",
			signatures: Sign(key, "msg", vectorTime, []byte(vectorTimestamp+".{}"))},
		{name: "dot shift into the timestamp", id: "msg", ts: vectorTimestamp + ".1", body: "{}",
			signatures: Sign(key, "msg", vectorTime, []byte("1.{}"))},
		{name: "oldest", now: vectorTime.Add(DefaultTolerance), ok: true},
		{name: "too old", now: vectorTime.Add(DefaultTolerance + time.Second)},
		{name: "newest", now: vectorTime.Add(-DefaultTolerance), ok: true},
		{name: "future", now: vectorTime.Add(-DefaultTolerance - time.Second)},
		{name: "milliseconds", ts: "1614265330000"},
		{name: "far future", ts: "999999999999", signatures: Sign(key, vectorID, time.Unix(999999999999, 0), []byte(vectorBody))},
		{name: "zero", ts: "0", signatures: Sign(key, vectorID, time.Unix(0, 0), []byte(vectorBody))},
		{name: "negative timestamp", ts: "-1614265330"},
		{name: "plus sign", ts: "+1614265330"},
		{name: "overflow", ts: "99999999999999999999"},
		{name: "float", ts: "1614265330.0"},
		{name: "blank timestamp", ts: " "},
		{name: "hexadecimal", ts: "0x6037b2f2"},
		{name: "joined ids", id: vectorID + "," + vectorID},
		{name: "long id", id: strings.Repeat("a", 129)},
		{name: "line break in the id", id: vectorID + "\n"},
		{name: "comma-joined signatures", signatures: vectorSignature + "," + vectorSignature},
		{name: "comma and space", signatures: vectorSignature + ", " + vectorSignature},
		{name: "two spaces", signatures: bad + "  " + vectorSignature},
		{name: "tab", signatures: bad + "\t" + vectorSignature},
		{name: "no version", signatures: strings.TrimPrefix(vectorSignature, "v1,")},
		{name: "url alphabet", signatures: strings.ReplaceAll(vectorSignature, "+", "-")},
		{name: "no padding", signatures: strings.TrimSuffix(vectorSignature, "=")},
		{name: "line break in the signature", signatures: strings.Replace(vectorSignature, "g0", "g\n0", 1)},
		{name: "loose trailing bits", signatures: strings.Replace(vectorSignature, "OE=", "OF=", 1)},
		{name: "truncated MAC", signatures: "v1,g0hM9SsE+OTPJTGt/tmIKg=="},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			or := func(s, fallback string) string {
				if s == "" {
					return fallback
				}
				return s
			}
			k, now := key, vectorTime
			if test.key != nil {
				k = test.key
			}
			if !test.now.IsZero() {
				now = test.now
			}
			err := verifyHeaders(hookOf(seedbed.SchemeStandard, k), standardFields(or(test.id, vectorID), or(test.ts,
				vectorTimestamp), or(test.signatures, vectorSignature)), or(test.body, vectorBody), now)
			if (err == nil) != test.ok {
				t.Errorf("error %v, want success %t", err, test.ok)
			}
		})
	}
}

func TestVerifyTolerance(t *testing.T) {
	t.Parallel()
	h := hookOf(seedbed.SchemeStandard, vectorKey(t))
	for _, h.Tolerance = range []time.Duration{30 * time.Second, time.Hour} {
		for _, off := range []time.Duration{0, time.Second} {
			for _, way := range []time.Duration{1, -1} {
				err := verifyHeaders(h, standardFields(vectorID, vectorTimestamp, vectorSignature), vectorBody, vectorTime.Add(way*(h.Tolerance+off)))
				if (err == nil) != (off == 0) {
					t.Errorf("off by %s with a tolerance of %s: %v", way*(h.Tolerance+off), h.Tolerance, err)
				}
			}
		}
	}
}

func hookOf(s seedbed.Scheme, secret []byte) seedbed.Hook {
	return seedbed.Hook{HookSettings: of(s), Keys: keys(secret)}
}

func standardFields(id, timestamp, signatures string) header.Fields {
	return header.Fields{HeaderID: {id}, HeaderTimestamp: {timestamp}, HeaderSignature: {signatures}}
}

// verifyHeaders is what a delivery goes through before it is believed.
func verifyHeaders(h seedbed.Hook, f header.Fields, body string, now time.Time) error {
	s, err := Of(h.HookSettings)
	if err != nil {
		return err
	}
	c, err := s.Read(f)
	if err != nil {
		return err
	}
	return Verify(h, s, c, []byte(body), now)
}
