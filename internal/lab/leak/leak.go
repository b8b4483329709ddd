// Package leak checks that no goroutine outlives the tests of a package.
package leak

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end after the tests. Goleak alone waits half a
// second, which a busy machine exceeds.
const patience = time.Minute

// Main runs the tests and ends the process. The tests fail if a goroutine of theirs does not end.
func Main(m interface{ Run() int }) {
	code := m.Run()
	if code == 0 {
		if err := Find(); err != nil {
			fmt.Fprintln(os.Stderr, "The tests passed, but not all goroutines ended:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find waits until no goroutine but the caller's runs. It returns which one still runs after
// patience.
func Find() error {
	for late := time.Now().Add(patience); ; {
		err := goleak.Find(
			// The HTTP library keeps one clock goroutine for the life of the process, and the sweeper
			// of a stopped server sees that within 10 s.
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
		if err == nil || time.Now().After(late) {
			return err
		}
	}
}
