package mapper

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/command"
)

const (
	shortTime = 20 * time.Second
	longTime  = time.Minute
)

// kernelRBD maps with rbd(8), by the kernel's own client (krbd) or rbd-nbd. Other clients cannot
// take the image's lock while it is mapped (--exclusive).
type kernelRBD struct {
	deviceType string // rbd(8)'s name for it: krbd or nbd
}

func (k kernelRBD) name() string {
	if k.deviceType == "krbd" {
		return "krbd"
	}
	return "rbd-nbd"
}

func (k kernelRBD) takes(v Volume) bool { return v.RBD != nil }

func (k kernelRBD) can(ctx context.Context) error {
	if err := command.Installed("rbd"); err != nil {
		return err
	}
	if k.deviceType == "krbd" {
		return kernelHas(ctx, "rbd", "/sys/bus/rbd")
	}
	if err := command.Installed("rbd-nbd"); err != nil {
		return err
	}
	return kernelHas(ctx, "nbd", "/sys/block/nbd0")
}

// mapArgs returns the arguments of rbd(8) that map an image. They do not contain the key itself.
func (k kernelRBD) mapArgs(r RBD) []string {
	return []string{"device", "map", "-t", k.deviceType, "--exclusive",
		"--conf", r.Conf, "--id", r.User, "--keyring", r.Keyring, r.Pool + "/" + r.Image}
}

// unmapArgs returns the arguments that unmap a device. rbd-nbd does not have force, and unmaps a
// device that is in use even without it.
func (k kernelRBD) unmapArgs(device string, force bool) []string {
	args := []string{"device", "unmap", "-t", k.deviceType}
	if force && k.deviceType == "krbd" {
		args = append(args, "-o", "force")
	}
	return append(args, device)
}

func (k kernelRBD) attach(ctx context.Context, e *entry) (string, error) {
	out, err := command.Run(ctx, command.Command{Name: "rbd", Args: k.mapArgs(*e.RBD), Timeout: longTime})
	if err != nil {
		return "", toolError(err)
	}
	device := strings.TrimSpace(string(out.Stdout))
	if !strings.HasPrefix(device, "/dev/") || strings.ContainsAny(device, " \n") {
		return "", fmt.Errorf("rbd device map answered %q: expected a path below /dev", device)
	}
	return device, nil
}

func (k kernelRBD) device(ctx context.Context, e *entry) (device string, works bool, err error) {
	out, err := command.Run(ctx,
		command.Command{Name: "rbd", Args: []string{"device", "list", "-t", k.deviceType, "--format", "json"}, Timeout: shortTime})
	if err != nil {
		return "", false, err
	}
	device, err = findMapped(out.Stdout, *e.RBD)
	return device, device != "", err
}

func (k kernelRBD) detach(ctx context.Context, e *entry, force bool) error {
	device, _, err := k.device(ctx, e)
	if device == "" || err != nil {
		return err
	}
	if !force {
		if err := flush(ctx, device); err != nil {
			return err
		}
	}
	_, err = command.Run(ctx, command.Command{Name: "rbd", Args: k.unmapArgs(device, force), Timeout: longTime})
	return toolError(err)
}

// findMapped finds the device of the image in the answer of rbd device list; "" if it is not
// mapped. krbd calls the image "name", rbd-nbd calls it "image".
func findMapped(answer []byte, r RBD) (string, error) {
	var all []struct {
		Pool      string `json:"pool"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Image     string `json:"image"`
		Snap      string `json:"snap"`
		Device    string `json:"device"`
	}
	if len(strings.TrimSpace(string(answer))) == 0 { // rbd-nbd's empty list
		return "", nil
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		return "", fmt.Errorf("answer of rbd device list: %w", err)
	}
	for _, m := range all {
		if m.Pool != r.Pool || m.Namespace != "" || m.Name != r.Image && m.Image != r.Image || m.Snap != "-" && m.Snap != "" {
			continue
		}
		if !strings.HasPrefix(m.Device, "/dev/") {
			return "", seedbed.Errorf(seedbed.ErrInvalid, "rbd device list names the device %q of %s/%s: expected a path below /dev",
				m.Device, r.Pool,
				r.Image)
		}
		return m.Device, nil
	}
	return "", nil
}
