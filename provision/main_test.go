package provision

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"seedbed/internal/lab/leak"
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
	leak.Main(m)
}
