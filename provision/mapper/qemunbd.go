package mapper

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// networkDisk maps a qcow2 file with qemu-nbd(8) behind a network block device of the kernel. It
// passes on what a reader serves.
type networkDisk struct{ h *Host }

func (n *networkDisk) name() string { return "qemu-nbd" }

func (n *networkDisk) takes(v Volume) bool { return v.File != "" }

func (n *networkDisk) can(ctx context.Context) error {
	if err := cmp.Or(command.Installed("qemu-nbd"), command.Installed(storageDaemon)); err != nil {
		return err
	}
	return kernelHas(ctx, "nbd", "/sys/block/nbd0")
}

// connectArgs returns the arguments of qemu-nbd that connect the disk that a reader serves. Its PID
// file has the token in its path, by which the process is found.
func (n *networkDisk) connectArgs(e *entry, device string) []string {
	return []string{"--connect=" + device, "--image-opts", "--cache=writeback", "--discard=unmap",
		"--pid-file=" + filepath.Join(n.h.own(e), "pid"), "driver=nbd,export=disk,server.type=fd,server.str=3"}
}

func (n *networkDisk) attach(ctx context.Context, e *entry) (string, error) {
	if err := os.MkdirAll(n.h.own(e), 0o700); err != nil {
		return "", err
	}
	free, err := freeNetworkDisks("/sys/block")
	if err != nil {
		return "", err
	}
	err = seedbed.Errorf(seedbed.ErrUnavailable, "all network block devices are in use: load the module with more (modprobe nbd nbds_max=64)")
	for _, device := range free {
		if err = n.connect(ctx, e, device); err == nil {
			return device, nil
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "Failed to set NBD socket") { // another program took it first
			break
		}
		if err := endServing(ctx, e.Token, true); err != nil { // the reader, which serves once
			return "", err
		}
	}
	return "", toolError(err)
}

// connect starts the two processes of a mapping.
func (n *networkDisk) connect(ctx context.Context, e *entry, device string) error {
	disk, err := reader(ctx, e)
	if err != nil {
		return err
	}
	defer disk.Close()
	_, err = command.Run(ctx, command.Command{Name: "qemu-nbd", Args: n.connectArgs(e, device), Timeout: shortTime,
		Sockets: []*os.File{disk}})
	return err
}

func (n *networkDisk) device(_ context.Context, e *entry) (device string, works bool, err error) {
	served, err := serving(e.Token)
	if err != nil {
		return "", false, err
	}
	for _, p := range served {
		for _, arg := range p.args {
			if device, ok := strings.CutPrefix(arg, "--connect="); ok {
				return device, whole(served), nil
			}
		}
	}
	// Its server has died: the device is still ours unless another server has taken it.
	if e.Device != "" && !exists(filepath.Join("/sys/block", filepath.Base(e.Device), "pid")) {
		return e.Device, false, nil
	}
	return "", false, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (n *networkDisk) detach(ctx context.Context, e *entry, force bool) error {
	device, works, err := n.device(ctx, e)
	if err != nil {
		return err
	}
	if works {
		if !force {
			if err := flush(ctx, device); err != nil {
				return err
			}
		}
		// qemu-nbd returns at once and disconnects while the server ends.
		if _, err := command.Run(ctx,
			command.Command{Name: "qemu-nbd", Args: []string{"--disconnect", device}, Timeout: shortTime}); err != nil &&
			!force {
			return err
		}
	}
	if err := endServing(ctx, e.Token, force); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(n.h.own(e), "pid")); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// freeNetworkDisks returns the unused network block devices below sys, in their order.
func freeNetworkDisks(sys string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(sys, "nbd*"))
	if err != nil {
		return nil, err
	}
	var free []int
	for _, dir := range all {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "nbd"))
		if err != nil {
			continue // a partition
		}
		if exists(filepath.Join(dir, "pid")) {
			continue
		}
		if size, err := os.ReadFile(filepath.Join(dir, "size")); err == nil && strings.TrimSpace(string(size)) == "0" {
			free = append(free, n)
		}
	}
	slices.Sort(free)
	devices := make([]string, len(free))
	for i, n := range free {
		devices[i] = fmt.Sprintf("/dev/nbd%d", n)
	}
	return devices, nil
}
