package signature

import (
	"bytes"
	"testing"
)

// BenchmarkVerify reads the headers of one delivery of 4 KiB and verifies it.
func BenchmarkVerify(b *testing.B) {
	key := vectorKey(b)
	h := hookOf("standard", key)
	body := bytes.Repeat([]byte("x"), 4<<10)
	f := standardFields(vectorID, vectorTimestamp, Sign(key, vectorID, vectorTime, body))
	s, err := Of(h.HookSettings)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := s.Read(f)
		if err == nil {
			err = Verify(h, s, c, body, vectorTime)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
