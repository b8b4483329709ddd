package image

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"seedbed/internal/command"
)

// Server is the program that reads an image for Write.
const Server = "qemu-storage-daemon"

// Write writes the disk in the image at src to target, an existing raw disk that is at least as
// large and all zeros. target is a name that qemu-img accepts, such as "rbd:pool/image:id=user".
// Zeros are not written. Nothing is cached: each part is read once and written once. progress gets
// percentages from 0 to 100. It returns ErrFull if there is no space, and ErrInvalid if src cannot
// be read in its format.
//
// The program that writes has this program's rights, because it may need the network and keys. So
// it does not read the image: a confined one does, and gives it the disk's contents.
func Write(ctx context.Context, src string, format Format, target string, progress func(percent float64)) error {
	return serve(ctx, src, format, func(disk *os.File) error {
		_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime, Stdout: &percents{report: progress},
			Sockets: []*os.File{disk}, Args: []string{"convert", "-p", "-n", "--target-is-zero", "-W", "-t", "none", "--image-opts",
				"-O", "raw", "driver=nbd,export=disk,server.type=fd,server.str=3", target}})
		if e := (*command.Error)(nil); errors.As(err, &e) && e.Err == nil && strings.Contains(e.Line, "error while reading") {
			return unreadable(err)
		}
		return room(err)
	})
}

// WriteRaw is Write for a source that QEMU reads as a raw disk, and whose bytes it does not interpret: both are names that qemu-img
// accepts.
func WriteRaw(ctx context.Context, source, target string, progress func(percent float64)) error {
	_, err := command.Run(ctx, command.Command{Name: Tool, Timeout: longTime, Stdout: &percents{report: progress},
		Args: []string{"convert", "-p", "-n", "--target-is-zero", "-W", "-t", "none", "-T", "none", "-f", "raw", "-O", "raw", source,
			target}})
	return room(err)
}

// serve calls use with a connection to the disk in the image at src, which a confined program reads
// until use returns. The connection speaks QEMU's protocol for network block devices, and the disk's
// name is "disk".
func serve(ctx context.Context, src string, format Format, use func(disk *os.File) error) error {
	listener, disk, err := command.Channel()
	if err != nil {
		return err
	}
	defer disk.Close()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := onFile(serving, src, command.Command{
			Name: Server, Timeout: longTime, Limits: reading, Sockets: []*os.File{listener},
			Stderr: io.Discard, // that it is stopped in the end is not for the job's output
			Args: []string{
				"--blockdev", "driver=file,node-name=file,read-only=on,filename=" + inherited,
				"--blockdev", "driver=" + string(format.driver()) + ",node-name=disk,read-only=on,file=file",
				"--nbd-server", "addr.type=fd,addr.str=4", "--export", "type=nbd,id=disk,node-name=disk,name=disk",
			}})
		_ = listener.Close() // so that use does not wait for a program that has ended
		ended <- err
	}()
	err = use(disk)
	stop()
	died := <-ended
	e := (*command.Error)(nil)
	_ = errors.As(died, &e)
	switch {
	case err == nil, died == nil, errors.Is(died, context.Canceled) && e == nil, e != nil && e.Signal == syscall.SIGKILL:
		return err // it was stopped, and did not end by itself
	case e == nil || e.Status < 0 && e.Signal == 0: // it was not started
		return died
	}
	own := *e // use only noticed its end
	own.Err = nil
	return unreadable(&own)
}
