package effects

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"seedbed"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	f := Frames{&wire}
	for _, part := range []string{"some", " of ", strings.Repeat("it", 1000)} {
		if n, err := io.WriteString(f, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := f.End(); err != nil {
		t.Fatal(err)
	}
	want := "some of " + strings.Repeat("it", 1000)
	got, err := io.ReadAll(&Unframed{from: iotest.OneByteReader(bytes.NewReader(wire.Bytes()))})
	if err != nil || string(got) != want {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
	for cut := range wire.Len() {
		got, err := io.ReadAll(&Unframed{from: bytes.NewReader(wire.Bytes()[:cut])})
		if !errors.Is(err, seedbed.ErrUnavailable) || len(got) > len(want) {
			t.Fatalf("cut after %d bytes: %d bytes, %v", cut, len(got), err)
		}
	}
}

func FuzzUnframed(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		got, err := io.ReadAll(&Unframed{from: bytes.NewReader(wire)})
		if len(got) > len(wire) {
			t.Fatalf("%d bytes of %d", len(got), len(wire))
		}
		if err == nil && !bytes.Contains(wire, make([]byte, 4)) {
			t.Fatal("an end without the last frame")
		}
	})
}
