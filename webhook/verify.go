package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks, in lower case.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// DefaultTolerance is how far a timestamp may be off, either way, where the
// hook does not say.
const DefaultTolerance = 5 * time.Minute

const maxSignatures = 16

// Sign is the value of the webhook-signature header for one attempt at ts, to
// the second, to deliver body under id: "v1," and the base64 of the MAC.
func Sign(key []byte, id string, ts time.Time, body []byte) string {
	mac := sum(key, id, strconv.FormatInt(ts.Unix(), 10), body)
	return "v1," + base64.StdEncoding.EncodeToString(mac)
}

func sum(key []byte, id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// attempt is what the headers of one delivery say. Neither id nor timestamp
// can hold a dot, so the signed bytes split in one way only.
type attempt struct {
	id        string
	timestamp string
	at        time.Time
	// macs are the raw v1 signatures; entries of other versions are not kept.
	macs [][sha256.Size]byte
}

var (
	idForm        = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	timestampForm = regexp.MustCompile(`^[0-9]{1,12}$`)
)

// parseAttempt reads the three headers. An error means that the request is
// malformed, and quotes nothing of it.
func parseAttempt(id, timestamp, signatures string) (attempt, error) {
	if !idForm.MatchString(id) {
		return attempt{}, errors.New(HeaderID + ": want 1 to 128 letters, digits, '_' or '-'")
	}
	if !timestampForm.MatchString(timestamp) {
		return attempt{}, errors.New(HeaderTimestamp + ": want Unix seconds in 1 to 12 digits")
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return attempt{}, errors.New(HeaderTimestamp + ": want Unix seconds")
	}
	macs, err := parseSignatures(signatures)
	if err != nil {
		return attempt{}, err
	}
	return attempt{id: id, timestamp: timestamp, at: time.Unix(seconds, 0), macs: macs}, nil
}

func parseSignatures(s string) ([][sha256.Size]byte, error) {
	entries := strings.SplitN(s, " ", maxSignatures+1)
	if len(entries) > maxSignatures {
		return nil, errors.New(HeaderSignature + ": more than 16 signatures")
	}
	var macs [][sha256.Size]byte
	for _, entry := range entries {
		version, value, ok := strings.Cut(entry, ",")
		if !ok || version == "" || value == "" {
			return nil, errors.New(HeaderSignature + ": want version,base64 with one space between signatures")
		}
		if version != "v1" {
			continue
		}
		mac, err := decodeBase64(value)
		if err != nil || len(mac) != sha256.Size {
			return nil, errors.New(HeaderSignature + ": a v1 signature is not the standard base64 of 32 bytes")
		}
		macs = append(macs, [sha256.Size]byte(mac))
	}
	return macs, nil
}

// verify checks one attempt against key. The error is for the log alone: a
// sender learns only that it was refused. Every signature is compared, and the
// clock is looked at last, so the time taken tells nothing about which is wrong.
func verify(key []byte, a attempt, body []byte, now time.Time, tolerance time.Duration) error {
	if err := checkKey(key); err != nil {
		return err
	}
	want := sum(key, a.id, a.timestamp, body)
	match := false
	for _, mac := range a.macs {
		if hmac.Equal(mac[:], want) {
			match = true
		}
	}
	if !match {
		return errors.New("no signature matches")
	}
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	switch skew := now.Sub(a.at); {
	case skew > tolerance:
		return errors.New("timestamp is too old")
	case skew < -tolerance:
		return errors.New("timestamp is in the future")
	}
	return nil
}
