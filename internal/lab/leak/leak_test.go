package leak

import (
	"testing"
	"time"
)

// TestFind has a goroutine that ends only after goleak has given up once.
func TestFind(t *testing.T) {
	const late = time.Second
	begun := time.Now()
	ended := make(chan struct{})
	go func() { time.Sleep(late); close(ended) }()
	if err := Find(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if d := time.Since(begun); d < late {
		t.Errorf("found nothing after %s, when the goroutine still ran", d)
	}
}
