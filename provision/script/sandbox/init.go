package sandbox

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The descriptors that both children inherit.
const (
	controlFD = 3 // the socket to the worker
	planFD    = 4 // what to do
	channelFD = 5 // the launcher's: Spec.Channel
)

// Init must be the first statement of main in a program that starts sandboxes, and of TestMain in
// its tests, because such a program runs itself again inside the sandbox. There Init does that
// part's work and does not return.
func Init() {
	switch os.Args[0] {
	case wardenName:
		os.Exit(serve(ward))
	case launcherName:
		os.Exit(serve(launchProgram))
	}
}

// serve runs one of the two parts and tells the worker why it failed.
func serve[P any](part func(P) error) int {
	// Nothing of the host's is inherited by accident.
	_ = unix.CloseRange(controlFD, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC)
	var p P
	f := os.NewFile(planFD, "plan")
	err := json.NewDecoder(f).Decode(&p)
	f.Close()
	if err == nil {
		err = part(p)
	}
	if err == nil {
		return 0
	}
	if terr := tellFD(controlFD, message{Op: opFailed, Text: err.Error()}); terr != nil {
		fmt.Fprintf(os.Stderr, "%s: %v (and cannot report it to the worker: %v)\n", os.Args[0], err, terr)
	}
	return 1
}
