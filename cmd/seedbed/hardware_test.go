package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"seedbed"
)

// formatOf returns the format of an image that is imported here: an ISO by its name.
func formatOf(image string) string {
	if strings.HasPrefix(image, "iso") {
		return seedbed.FormatISO
	}
	return "qcow2"
}

// atOnce reports whether a guest that runs gets a change of its hardware at once.
func atOnce(what string) bool {
	return what == "cdrom" || what == "autostart" || what == "restart" || what == "restart_priority" || what == "placement_group"
}

// set does what a job on the hardware of an instance does.
func (e engine) set(ctx context.Context, job *seedbed.Job) error {
	if job.Kind != seedbed.JobSet {
		return nil
	}
	var spec seedbed.HardwareJob
	if err := json.Unmarshal(job.Spec, &spec); err != nil {
		return err
	}
	return e.db.SetHardware(ctx, job.Ref(), *spec.To, slices.DeleteFunc(spec.Changed, atOnce))
}
