package mapper

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// readerLimits bound the program that reads a qcow2 file.
var readerLimits = command.Limits{Memory: 4 * seedbed.GiB}

// node is one block node (QEMU's qapi/block-core.json, BlockdevOptions).
type node map[string]any

// reader starts the program that reads and writes the entry's qcow2 file, and returns the connection
// on which it serves the disk (NBD). A guest that took over its QEMU can have written anything into
// the file, and who maps the disk needs root's rights. So a program of its own understands the file,
// which is confined to it, and to the images that it may be a clone of.
func reader(ctx context.Context, e *entry) (disk *os.File, err error) {
	listener, disk, err := command.Channel()
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	args, err := readerArgs(e)
	if err == nil {
		// The command returns once the file is open, and the process goes on.
		_, err = command.Run(ctx, command.Command{
			Name: storageDaemon, Args: args, Timeout: longTime, Limits: readerLimits, Sockets: []*os.File{listener},
			Confined: &command.Confined{Write: []string{e.File}, Read: e.images()},
		})
	}
	if err != nil {
		_ = disk.Close()
		return nil, toolError(err)
	}
	return disk, nil
}

// readerArgs returns the arguments of a reader. The export's name has the token, by which the
// process is found.
func readerArgs(e *entry) ([]string, error) {
	args := []string{"--daemonize"}
	for _, n := range []node{
		{"driver": "file", "node-name": "file", "filename": e.File, "discard": "unmap"},
		{"driver": "qcow2", "node-name": "disk", "file": "file", "discard": "unmap"},
	} {
		b, err := json.Marshal(n)
		if err != nil {
			return nil, err
		}
		args = append(args, "--blockdev", string(b))
	}
	return append(args, "--nbd-server", "addr.type=fd,addr.str=3",
		"--export", readerExport+e.Token+",node-name=disk,name=disk,writable=on"), nil
}

// readerExport begins the argument by which a reader is told from other servers.
const readerExport = "type=nbd,id=disk-"

// reads reports whether the process is a reader.
func (s server) reads() bool {
	return slices.ContainsFunc(s.args, func(arg string) bool { return strings.HasPrefix(arg, readerExport) })
}

// whole reports whether both processes of a mapping run: the reader of the file, and the one that
// makes its disk a device.
func whole(all []server) bool {
	return slices.ContainsFunc(all, server.reads) && slices.ContainsFunc(all, func(s server) bool { return !s.reads() })
}
