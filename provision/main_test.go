package provision

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that every goroutine has ended once the tests have.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The HTTP library of the worker keeps one clock goroutine for the life of
		// the process, and the sweeper of a stopped server sees that within 10 s.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}
