// Command seedbed-worker does the work that touches the node: it makes volumes, imports images and
// drives libvirt. It acts only on behalf of seedbedd. It needs root, and is the only program that
// links C code.
package main

import (
	"context"
	"os"

	"seedbed/internal/run"
	"seedbed/provision/script/sandbox"
)

func main() {
	sandbox.Init() // this program is also the first process of a script's sandbox
	os.Exit(run.Program{
		Name:    "seedbed-worker",
		Summary: "Seedbed's worker on a node: volumes and libvirt domains",
		Run:     serve,
	}.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
