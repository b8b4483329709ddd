package run

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// headroom is how much a heap may grow between two collections, at least.
const headroom = 32 << 20

// Headroom lets the heap of this process grow by 32 MiB between two collections,
// or to twice its size where that is more, as it is anyway. A daemon with little in
// memory would else collect many times a second as soon as it has much to do.
// GOGC in the environment has the last word.
func Headroom() {
	if os.Getenv("GOGC") == "" {
		afterCollection()
	}
}

// afterCollection sets how far the heap may grow now, and again after each collection.
func afterCollection() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percent(live[0].Value.Uint64()))
	// What nobody refers to is found by the next collection.
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) { afterCollection() })
}

// sentinel is not of the kind of small object that shares its memory with others.
type sentinel struct{ _ *sentinel }

// percent is the GOGC by which a heap of so many bytes has headroom.
func percent(live uint64) int {
	return int(max(100, headroom*100/max(live, 4<<20)))
}
