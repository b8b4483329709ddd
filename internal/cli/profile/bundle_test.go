package profile

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"seedbed"
)

func TestBundleSignature(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := bundle{Format: 1, Catalogue: jsontext.Value(`{"b":[1,2],"a":"\u00e9"}`)}
	if err := b.sign(private); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		spoil func(b *bundle)
		want  error
	}{
		"as it is":            {func(*bundle) {}, nil},
		"written otherwise":   {func(b *bundle) { b.Catalogue = jsontext.Value("{ \"a\": \"é\",\n \"b\": [1, 2.0] }") }, nil},
		"another order":       {func(b *bundle) { b.Catalogue = jsontext.Value(`{"a":"é","b":[2,1]}`) }, seedbed.ErrForbidden},
		"another value":       {func(b *bundle) { b.Catalogue = jsontext.Value(`{"a":"e","b":[1,2]}`) }, seedbed.ErrForbidden},
		"another time":        {func(b *bundle) { b.Made = b.Made.AddDate(1, 0, 0) }, seedbed.ErrForbidden},
		"another signature":   {func(b *bundle) { b.Signature = &bundleSigner{public, make([]byte, 64)} }, seedbed.ErrForbidden},
		"another key":         {func(b *bundle) { b.Signature = &bundleSigner{make([]byte, 32), b.Signature.Value} }, seedbed.ErrForbidden},
		"without a signature": {func(b *bundle) { b.Signature = nil }, seedbed.ErrForbidden},
	} {
		spoiled := b
		tt.spoil(&spoiled)
		text, err := spoiled.format()
		if err != nil {
			t.Fatal(err)
		}
		read, err := parseBundle(name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := read.verify(name, public); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func FuzzParseBundle(f *testing.F) {
	f.Add(`{"seedbed_catalogue":1,"made":"2026-01-01T00:00:00Z","catalogue":{"a":1}}`)
	f.Add(`{"seedbed_catalogue":1,"made":"2026-01-01T00:00:00Z","catalogue":{"a":1},"signature":{"ed25519_key":"AA==","value":"AA=="}}`)
	f.Fuzz(func(t *testing.T, text string) {
		b, err := parseBundle("fuzz", []byte(text))
		if err != nil {
			return
		}
		first, err := b.signed()
		if err != nil {
			return // numbers that RFC 8785 cannot express
		}
		again, err := b.format()
		if err != nil {
			t.Fatal(err)
		}
		if b, err = parseBundle("fuzz", again); err != nil {
			t.Fatalf("%v of %s", err, again)
		}
		if second, err := b.signed(); err != nil || string(first) != string(second) {
			t.Errorf("%q, then %q: %v", first, second, err)
		}
	})
}
