package guestplane

import (
	"os"
	"runtime/debug"
)

// gcPercent keeps the heap close to what is in use: nearly all of that is
// records, which last, and a request leaves next to nothing behind.
const gcPercent = 32

// SaveMemory sets the collector up for a process that holds much and makes
// little. The operator's GOGC goes first.
func SaveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// returnMemory gives what a large change needed back to the system.
func returnMemory() { debug.FreeOSMemory() }
