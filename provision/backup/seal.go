package backup

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"seedbed"
)

// keySize is the size of the key of names, in bytes.
const keySize = 32

// seal is how a place's content is named, and encrypted. The zero seal encrypts nothing.
type seal struct {
	recipient *age.X25519Recipient // nil: not encrypted
	identity  *age.X25519Identity  // nil: nothing encrypted can be read
	key       []byte               // of names; nil if it is not known
}

// sealed reports whether the content is encrypted.
func (s *seal) sealed() bool { return s.recipient != nil }

// parseIdentity parses a secret key. Its errors do not show it.
func parseIdentity(secret seedbed.Secret, of string) (*age.X25519Identity, error) {
	if secret == "" {
		return nil, nil
	}
	id, err := age.ParseX25519Identity(string(secret))
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"the secret key of backups cannot be read: expected one that age-keygen makes, which begins with AGE-SECRET-KEY-1")
	}
	if have := id.Recipient().String(); of != "" && have != of {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the secret key of backups is that of %s, and they are encrypted for %s", have, of)
	}
	return id, nil
}

func parseRecipient(text string) (*age.X25519Recipient, error) {
	if text == "" {
		return nil, nil
	}
	r, err := age.ParseX25519Recipient(text)
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid,
			"public key %q of backups cannot be read: expected one that age-keygen makes, which begins with age1", seedbed.Clip(text))
	}
	return r, nil
}

// newKey draws a key of names.
func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

func parseKey(text seedbed.Secret) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(key) != keySize {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the key of the names of chunks cannot be read: expected %d bytes in base64", keySize)
	}
	return key, nil
}

func formatKey(key []byte) seedbed.Secret {
	if key == nil {
		return ""
	}
	return seedbed.Secret(base64.StdEncoding.EncodeToString(key))
}

// proof is what is stored of a key of names, by which it is recognized.
func proof(key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("seedbed: the key of the names of chunks"))
	return h.Sum(nil)
}

// name returns the name of a chunk.
func (s *seal) name(plain []byte) seedbed.Digest {
	if !s.sealed() {
		return sha256.Sum256(plain)
	}
	h := hmac.New(sha256.New, s.key)
	h.Write(plain)
	return seedbed.Digest(h.Sum(nil))
}

// close encrypts, if the place is encrypted.
func (s *seal) close(plain []byte) ([]byte, error) {
	if !s.sealed() {
		return plain, nil
	}
	var out bytes.Buffer
	out.Grow(len(plain) + len(plain)/1000 + 1024)
	w, err := age.Encrypt(&out, s.recipient)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// damage is why content is not what was written.
type damage string

// Error implements error.
func (d damage) Error() string { return "is damaged: " + string(d) }

// Unwrap returns the kind.
func (d damage) Unwrap() error { return seedbed.ErrConflict }

func damaged(format string, args ...any) error { return damage(fmt.Sprintf(format, args...)) }

// isDamaged reports whether err is about content that is not what was written.
func isDamaged(err error) bool {
	_, ok := errors.AsType[damage](err)
	return ok
}

// open is the inverse of close.
func (s *seal) open(stored []byte) ([]byte, error) {
	if !s.sealed() {
		return stored, nil
	}
	if s.identity == nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "backups are encrypted for %s: the secret key is needed to read them", s.recipient)
	}
	r, err := age.Decrypt(bytes.NewReader(stored), s.identity)
	if err != nil {
		return nil, damaged("%v", err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, damaged("%v", err)
	}
	return plain, nil
}
