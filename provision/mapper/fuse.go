package mapper

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/cephkey"
	"seedbed/internal/command"
)

// The files in a mapping's own directory.
const (
	diskFile = "disk" // the volume as a raw file, through FUSE
	keyFile  = "key"  // the Ceph user's key, in base64
)

const storageDaemon = "qemu-storage-daemon"

// fuse maps with QEMU's storage daemon, which shows the volume as a file (FUSE), and a loop device
// on that file. It only needs kernel modules that every host has. A qcow2 file is read by another
// one (reader).
type fuse struct {
	h   *Host
	rbd bool // for RBD; otherwise for qcow2 files
}

func (f *fuse) name() string {
	if f.rbd {
		return "rbd-fuse"
	}
	return "qcow2-fuse"
}

func (f *fuse) takes(v Volume) bool { return f.rbd == (v.RBD != nil) }

func (f *fuse) can(ctx context.Context) error {
	if err := command.Installed(storageDaemon); err != nil {
		return err
	}
	if err := kernelHas(ctx, "fuse", "/dev/fuse"); err != nil {
		return err
	}
	return kernelHas(ctx, "loop", loopControl)
}

// args returns the arguments of the storage daemon. The mount point has the token in its path, by
// which the process is found. The key is in a file.
func (f *fuse) args(e *entry) ([]string, error) {
	own := f.h.own(e)
	args := []string{"--daemonize"}
	disk := node{"driver": "nbd", "export": "disk", "server": node{"type": "fd", "str": "3"}} // its reader's
	if f.rbd {
		args = append(args, "--object", "secret,id=key,format=base64,file="+filepath.Join(own, keyFile))
		disk = node{"driver": "rbd", "pool": e.RBD.Pool, "image": e.RBD.Image, "user": e.RBD.User, "conf": e.RBD.Conf, "key-secret": "key"}
	}
	disk["node-name"], disk["discard"] = "disk", "unmap"
	for _, option := range []struct {
		name  string
		value node
	}{
		{"--blockdev", disk},
		{"--export", node{"type": "fuse", "id": "disk", "node-name": "disk", "mountpoint": filepath.Join(own, diskFile), "writable": true}},
	} {
		b, err := json.Marshal(option.value)
		if err != nil {
			return nil, err
		}
		args = append(args, option.name, string(b))
	}
	return args, nil
}

func (f *fuse) attach(ctx context.Context, e *entry) (string, error) {
	own := f.h.own(e)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", err
	}
	if f.rbd {
		key, err := cephkey.Read(e.RBD.Keyring, e.RBD.User)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(own, keyFile), []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
			return "", err
		}
	}
	disk := filepath.Join(own, diskFile)
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		return "", err
	}
	args, err := f.args(e)
	if err != nil {
		return "", err
	}
	var sockets []*os.File
	if !f.rbd {
		conn, err := reader(ctx, e)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		sockets = []*os.File{conn}
	}
	// The command returns once the file exists. A daemon whose parent has died by then ends by
	// itself.
	if _, err := command.Run(ctx, command.Command{Name: storageDaemon, Args: args, Timeout: longTime, Sockets: sockets}); err != nil {
		return "", toolError(err)
	}
	return attachLoop(disk, e.Token)
}

func (f *fuse) device(_ context.Context, e *entry) (device string, works bool, err error) {
	served, err := serving(e.Token)
	if err != nil {
		return "", false, err
	}
	device, err = loopOf(e.Token)
	return device, device != "" && (whole(served) || f.rbd && len(served) > 0), err
}

// detach detaches the loop device first, because its last writes go through the daemon. With force
// those writes are given up, and the daemon ends first, so that nothing waits for it.
func (f *fuse) detach(ctx context.Context, e *entry, force bool) error {
	if force {
		if err := endServing(ctx, e.Token, true); err != nil {
			return err
		}
	}
	device, err := loopOf(e.Token)
	if err != nil {
		return err
	}
	if device != "" {
		if !force {
			if err := flush(ctx, device); err != nil {
				return err
			}
		}
		if err := detachLoop(ctx, device, e.Token); err != nil {
			return err
		}
	}
	if err := endServing(ctx, e.Token, force); err != nil {
		return err
	}
	// A killed daemon leaves its mount behind.
	disk := filepath.Join(f.h.own(e), diskFile)
	err = unix.Unmount(disk, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return seedbed.Errorf(seedbed.ErrInUse, "unmount %s: %v", disk, err)
	}
	return nil
}
