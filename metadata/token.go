package metadata

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"seedbed"
)

const (
	tokenKeyLen = 32
	// tokenVersion is the first byte of a token; another layout gets another.
	tokenVersion = 1
	// tokenHeadLen is version, expiry (Unix seconds, big endian) and a random part.
	tokenHeadLen = 1 + 8 + 7
	tokenLen     = tokenHeadLen + sha256.Size

	minTokenTTL = time.Second
	maxTokenTTL = 21600 * time.Second
)

var tokenText = base64.RawURLEncoding.Strict()

// tokenKey issues and checks IMDSv2 session tokens. A token is stateless: its
// head and the HMAC-SHA256 over a label, the head and the instance's ID, so
// that it is good on any host that has the key, and for one instance alone.
// The zero key issues and accepts nothing.
type tokenKey struct{ key []byte }

func newTokenKey(key []byte) tokenKey { return tokenKey{key: append([]byte(nil), key...)} }

func (k tokenKey) ok() bool { return len(k.key) == tokenKeyLen }

func (k tokenKey) sum(head []byte, id seedbed.InstanceID) []byte {
	h := hmac.New(sha256.New, k.key)
	h.Write([]byte("seedbed imdsv2 token\n"))
	h.Write(head)
	h.Write([]byte(id))
	return h.Sum(nil)
}

// issue makes a token for the instance that ends ttl after now.
func (k tokenKey) issue(id seedbed.InstanceID, now time.Time, ttl time.Duration) string {
	head := make([]byte, tokenHeadLen, tokenLen)
	head[0] = tokenVersion
	binary.BigEndian.PutUint64(head[1:], uint64(now.Add(ttl).Unix()))
	rand.Read(head[9:])
	return tokenText.EncodeToString(append(head, k.sum(head, id)...))
}

// valid tells whether token was issued with this key to that instance and has not ended.
func (k tokenKey) valid(token []byte, id seedbed.InstanceID, now time.Time) bool {
	if !k.ok() || len(token) != tokenText.EncodedLen(tokenLen) {
		return false
	}
	var raw [tokenLen]byte
	if n, err := tokenText.Decode(raw[:], token); err != nil || n != tokenLen || raw[0] != tokenVersion {
		return false
	}
	if !hmac.Equal(raw[tokenHeadLen:], k.sum(raw[:tokenHeadLen], id)) {
		return false
	}
	return now.Unix() < int64(binary.BigEndian.Uint64(raw[1:]))
}

// parseTTL reads the value of X-aws-ec2-metadata-token-ttl-seconds: decimal digits, 1 to 21600.
func parseTTL(v []byte) (time.Duration, bool) {
	if len(v) == 0 || len(v) > 5 {
		return 0, false
	}
	n := 0
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	ttl := time.Duration(n) * time.Second
	return ttl, ttl >= minTokenTTL && ttl <= maxTokenTTL
}
