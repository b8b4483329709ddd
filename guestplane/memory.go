package guestplane

import (
	"os"
	"runtime/debug"
)

// gcPercent keeps the heap close to what is in use: nearly all of that is
// records, which last, and a request leaves next to nothing behind.
const gcPercent = 32

// SaveMemory tunes the garbage collector for a process that holds much memory and allocates little. GOGC overrides it.
func SaveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// returnMemory returns the memory that a large change needed to the system.
func returnMemory() { debug.FreeOSMemory() }
