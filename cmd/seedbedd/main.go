// Command seedbedd is Seedbed's control plane: it holds the state, receives webhooks, serves the
// REST API and the feed, and runs the jobs. It does not need root and links no C code.
package main

import (
	"context"
	"os"

	"seedbed/internal/run"
)

func main() {
	run.Headroom()
	p, args := program(os.Args[1:])
	os.Exit(p.Main(context.Background(), args, os.Stdout, os.Stderr))
}
