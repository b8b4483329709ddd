package run

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// headroom is the least growth of a heap between two collections.
const headroom = 32 << 20

// Headroom lets the heap of this process grow by 32 MiB between two collections, or to twice its
// size, Go's default, if that is more. Otherwise a daemon with a small heap would collect many
// times a second under load. GOGC in the environment takes precedence.
func Headroom() {
	if os.Getenv("GOGC") == "" {
		afterCollection()
	}
}

// afterCollection sets how far the heap may grow, and sets it again after each collection.
func afterCollection() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percent(live[0].Value.Uint64()))
	// The next collection finds the sentinel, because it is unreferenced.
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) { afterCollection() })
}

// sentinel has a pointer, because small objects without pointers share their memory with others.
type sentinel struct{ _ *sentinel }

// percent returns the GOGC value that gives a heap of live bytes its headroom.
func percent(live uint64) int {
	return int(max(100, headroom*100/max(live, 4<<20)))
}
