package command

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		var kept tail
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, int(OutputLimit)+100), 0, 8).Draw(t, "sizes") {
			p := bytes.Repeat([]byte{byte(len(all))}, n)
			all = append(all, p...)
			if w, err := kept.Write(p); w != n || err != nil {
				t.Fatalf("Write: %d, %v", w, err)
			}
		}
		want := all[max(0, len(all)-int(OutputLimit)):]
		if !bytes.Equal(kept.bytes(), want) || kept.cut != (len(want) < len(all)) {
			t.Fatalf("kept %d of %d bytes, cut %v", len(kept.buf), len(all), kept.cut)
		}
	})
}
