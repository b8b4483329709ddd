//go:build libvirt

package libvirt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	lv "libvirt.org/go/libvirt"

	"seedbed"
)

// SnapshotDisks implements worker.DiskSnapshotter. libvirt has no call for a snapshot inside a file without one of the memory, so QEMU is
// asked itself (docs/decisions/0044-snapshots-of-running-guests.md). It stops the I/O of all disks first, and lets none go on before all
// snapshots are taken.
func (d *Driver) SnapshotDisks(ctx context.Context, id seedbed.InstanceID, all []seedbed.DiskSnapshot) error {
	return d.do(ctx, "take snapshots of the disks of domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if err != nil {
			return err
		}
		defer free(dom)
		if err := snapshotLive(dom, id, all); err != nil {
			if active, activeErr := dom.IsActive(); activeErr == nil && !active {
				err = seedbed.Errorf(seedbed.ErrUnavailable, "domain %s is off, and has no disk open any more", id)
			}
			return err
		}
		return nil
	})
}

func snapshotLive(dom *lv.Domain, id seedbed.InstanceID, all []seedbed.DiskSnapshot) error {
	open, err := openFiles(dom, id)
	if err != nil {
		return err
	}
	var actions []any
	for _, s := range all {
		at, ok := open[s.Disk.Source]
		if !ok {
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s does not have the disk %s open", id, s.Disk.Source)
		}
		actions = append(actions, map[string]any{"type": "blockdev-snapshot-internal-sync",
			"data": map[string]string{"device": at.node, "name": s.Name}})
	}
	_, err = askQEMU[json.RawMessage](dom, "transaction", map[string]any{"actions": actions})
	return err
}

// DropDiskSnapshot implements worker.DiskSnapshotter.
func (d *Driver) DropDiskSnapshot(ctx context.Context, id seedbed.InstanceID, s seedbed.DiskSnapshot) error {
	return d.do(ctx, "remove a snapshot of a disk of domain "+string(id), id, func(_ context.Context, conn *lv.Connect) error {
		dom, _, err := find(conn, id)
		if errors.Is(err, seedbed.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		defer free(dom)
		if active, err := dom.IsActive(); err != nil || !active {
			return err
		}
		open, err := openFiles(dom, id)
		if at, ok := open[s.Disk.Source]; err == nil && ok && slices.Contains(at.snapshots, s.Name) {
			_, err = askQEMU[json.RawMessage](dom, "blockdev-snapshot-delete-internal-sync",
				map[string]string{"device": at.node, "name": s.Name})
		}
		if active, activeErr := dom.IsActive(); err != nil && activeErr == nil && !active {
			return nil // it was shut off in the meantime and has closed the disk
		}
		return err
	})
}

// openFile is a file that a domain has open as a disk.
type openFile struct {
	node      string // QEMU's name of it
	snapshots []string
}

// openFiles returns the files that a running domain has open as disks, by their paths.
func openFiles(dom *lv.Domain, id seedbed.InstanceID) (map[string]openFile, error) {
	doc, err := running(dom, id)
	if err != nil {
		return nil, err
	}
	blocks, err := askQEMU[[]struct {
		Device   string `json:"qdev"`
		Inserted struct {
			Node  string `json:"node-name"`
			Image struct {
				Snapshots []struct {
					Name string `json:"name"`
				} `json:"snapshots"`
			} `json:"image"`
		} `json:"inserted"`
	}](dom, "query-block", nil)
	if err != nil {
		return nil, err
	}
	open := map[string]openFile{}
	for _, disk := range dataDisks(&doc) {
		if disk.Source == nil || disk.Source.File == nil || disk.Alias == nil {
			continue
		}
		for _, b := range blocks {
			// A device that has no name of its own is called by its path, which has that of the one that it is part of.
			if b.Inserted.Node == "" || b.Device != disk.Alias.Name && !strings.Contains(b.Device+"/", "/"+disk.Alias.Name+"/") {
				continue
			}
			file := openFile{node: b.Inserted.Node}
			for _, s := range b.Inserted.Image.Snapshots {
				file.snapshots = append(file.snapshots, s.Name)
			}
			open[disk.Source.File.File] = file
		}
	}
	return open, nil
}

// askQEMU has the QEMU of a running domain execute a command (https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html).
func askQEMU[T any](dom *lv.Domain, command string, arguments any) (result T, err error) {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	text, err := json.Marshal(request)
	if err != nil {
		return result, err
	}
	answer, err := dom.QemuMonitorCommand(string(text), lv.DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT)
	if err != nil {
		return result, err
	}
	var got struct {
		Return T `json:"return"`
		Error  *struct {
			Text string `json:"desc"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		return result, fmt.Errorf("the answer of QEMU to %s: %w", command, err)
	}
	if got.Error != nil {
		return result, fmt.Errorf("QEMU refuses %s: %s", command, seedbed.ClipTo(got.Error.Text, 500))
	}
	return got.Return, nil
}
