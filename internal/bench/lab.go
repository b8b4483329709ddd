package bench

import (
	"fmt"
	"os"
)

// Lab lets internal/lab start components outside of a test: it is the test. What
// the lab cannot do it says with a panic, which Run turns into an error.
type Lab struct {
	// Dir is a directory of the run's own, which goes with it.
	Dir  string
	undo []func()
}

// Run runs a benchmark with a lab, and then takes down what it started.
func Run(work func(*Lab) error) (err error) {
	l := &Lab{}
	defer func() {
		for i := len(l.undo) - 1; i >= 0; i-- {
			l.undo[i]()
		}
	}()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case labError:
			err = p
		default:
			panic(p)
		}
	}()
	if l.Dir, err = os.MkdirTemp("", "seedbed-bench"); err != nil {
		return err
	}
	l.Cleanup(func() { os.RemoveAll(l.Dir) })
	return work(l)
}

// labError is what the lab could not do.
type labError string

func (e labError) Error() string { return string(e) }

// Helper implements lab.T.
func (l *Lab) Helper() {}

// Cleanup implements lab.T.
func (l *Lab) Cleanup(f func()) { l.undo = append(l.undo, f) }

// Fatal implements lab.T.
func (l *Lab) Fatal(args ...any) { panic(labError(fmt.Sprint(args...))) }

// Fatalf implements lab.T.
func (l *Lab) Fatalf(format string, args ...any) { panic(labError(fmt.Sprintf(format, args...))) }
