package metadata

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
	"time"

	"seedbed"
)

const (
	tokenKeyLen = 32
	// tokenVersion is the first byte of a token. It changes with the layout.
	tokenVersion = 1
	// tokenHeadLen is version, expiry (Unix seconds, big endian) and a random part.
	tokenHeadLen = 1 + 8 + 7
	tokenLen     = tokenHeadLen + sha256.Size

	minTokenTTL = time.Second
	maxTokenTTL = 21600 * time.Second
)

var tokenText = base64.RawURLEncoding.Strict()

// tokenKey issues and checks IMDSv2 session tokens. A token is stateless: its head and the
// HMAC-SHA256 over a label, the head and the instance's ID, so that it is valid on any host that
// has the key, but only for one instance. An empty key neither issues nor accepts tokens.
type tokenKey struct {
	key    []byte
	hashes sync.Pool // *keyed, with the key's blocks hashed already
}

type keyed struct {
	hash.Hash
	sum [sha256.Size]byte
	buf []byte
}

func newTokenKey(key []byte) *tokenKey {
	k := &tokenKey{key: bytes.Clone(key)}
	k.hashes.New = func() any { return &keyed{Hash: hmac.New(sha256.New, k.key)} }
	return k
}

func (k *tokenKey) ok() bool { return len(k.key) == tokenKeyLen }

// is reports whether k was made from key.
func (k *tokenKey) is(key []byte) bool { return hmac.Equal(k.key, key) }

func (k *tokenKey) sum(head []byte, id seedbed.InstanceID) [sha256.Size]byte {
	h := k.hashes.Get().(*keyed)
	defer k.hashes.Put(h)
	h.Reset()
	h.buf = append(append(append(h.buf[:0], "seedbed imdsv2 token\n"...), head...), id...)
	h.Write(h.buf)
	h.Sum(h.sum[:0])
	return h.sum
}

// issue returns a token for the instance that expires ttl after now.
func (k *tokenKey) issue(id seedbed.InstanceID, now time.Time, ttl time.Duration) string {
	head := make([]byte, tokenHeadLen, tokenLen)
	head[0] = tokenVersion
	binary.BigEndian.PutUint64(head[1:], uint64(now.Add(ttl).Unix()))
	rand.Read(head[9:])
	sum := k.sum(head, id)
	return tokenText.EncodeToString(append(head, sum[:]...))
}

// check returns when token expires, if it was issued with this key to that instance.
func (k *tokenKey) check(token []byte, id seedbed.InstanceID) (ends time.Time, ok bool) {
	if !k.ok() || len(token) != tokenText.EncodedLen(tokenLen) {
		return ends, false
	}
	var raw [tokenLen]byte
	if n, err := tokenText.Decode(raw[:], token); err != nil || n != tokenLen || raw[0] != tokenVersion {
		return ends, false
	}
	sum := k.sum(raw[:tokenHeadLen], id)
	if !hmac.Equal(raw[tokenHeadLen:], sum[:]) {
		return ends, false
	}
	return time.Unix(int64(binary.BigEndian.Uint64(raw[1:])), 0), true
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

// hasToken reports whether the caller's token is valid now. A token that was valid before on this
// connection is not hashed again.
func (c *conn) hasToken(token []byte, now time.Time) bool {
	key := c.at.token
	if c.checkedBy != key || !bytes.Equal(c.token, token) || len(token) == 0 {
		ends, ok := key.check(token, c.who)
		if !ok {
			return false
		}
		c.token, c.tokenEnds, c.checkedBy = append(c.token[:0], token...), ends, key
	}
	return now.Before(c.tokenEnds)
}
