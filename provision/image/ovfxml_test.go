package image

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
)

// A text in many pieces takes no more than a long one. The test is not parallel, because it counts
// what the program allocates.
func TestXMLInPieces(t *testing.T) {
	text := []byte("<a>" + strings.Repeat("x<!---->", 20_000) + "</a>")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e, err := parseXML(t.Context(), text)
	runtime.ReadMemStats(&after)
	if err != nil || string(e.text) != strings.Repeat("x", 20_000) {
		t.Fatalf("got %v", err)
	}
	// Copying the text for each piece would take 200 MB.
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 50e6 {
		t.Errorf("a document of %d bytes allocated %d", len(text), bytes)
	}
}

func TestXMLEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ParseOVF(ctx, []byte(virtualBox)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
