package guestplane

import (
	"os"
	"runtime/debug"
)

// gcPercent keeps the heap close to what is in use. Nearly all of that is long-lived records, and
// requests leave little garbage.
const gcPercent = 32

// SaveMemory tunes the garbage collector for a process that holds much memory and allocates little.
// GOGC overrides it.
func SaveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// returnMemory returns the memory that a large change needed to the system.
func returnMemory() { debug.FreeOSMemory() }
