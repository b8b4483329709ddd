package provision

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// together is how many tests run at the same time, unless a flag says otherwise: most of the time
// they wait for leases and retries.
const together = 8

// TestMain checks that every goroutine has ended after the tests.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set(strconv.Itoa(together)); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m,
		// The HTTP library of the worker keeps one clock goroutine for the life of the process, and
		// the sweeper of a stopped server sees that within 10 s.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}
