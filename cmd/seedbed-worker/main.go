// Command seedbed-worker does what touches the host: it makes volumes, imports
// images and drives libvirt, only on behalf of seedbedd. It needs
// root, and is the one program that links C.
package main

import (
	"context"
	"os"

	"seedbed/internal/run"
	"seedbed/provision/script/sandbox"
)

func main() {
	sandbox.Init() // a script's first process is this program too
	os.Exit(run.Program{
		Name:    "seedbed-worker",
		Summary: "Seedbed's hands on one host: disks and libvirt",
		Run:     serve,
	}.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
