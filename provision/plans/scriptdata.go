package plans

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// noSecret stands for the UUID of a libvirt secret if no pool needs one, so that the XML of PVC's
// scripts stays valid.
const noSecret = "00000000-0000-0000-0000-000000000000"

// The rows of PVC's database as its scripts read them (reference: vm_data of the provisioner
// manual; the names are its columns).
type (
	systemRow struct {
		ID           int64   `json:"id"`
		Name         string  `json:"name"`
		VCPUs        int     `json:"vcpu_count"`
		Memory       int64   `json:"vram_mb"`
		Serial       bool    `json:"serial"`
		VNC          bool    `json:"vnc"`
		VNCBind      *string `json:"vnc_bind"`
		NodeLimit    *string `json:"node_limit"`
		NodeSelector *string `json:"node_selector"`
		Autostart    bool    `json:"node_autostart"`
		Migration    *string `json:"migration_method"`
		Downtime     int64   `json:"migration_max_downtime"`
		OVA          *int64  `json:"ova"`
	}
	networkRow struct {
		ID       int64  `json:"id"`
		Template int64  `json:"network_template"`
		VNI      string `json:"vni"`
		Bridge   string `json:"eth_bridge"`
		// MAC is not in PVC's row: it is the address that the NIC will have.
		MAC seedbed.MAC `json:"mac"`
	}
	volumeRow struct {
		ID         int64   `json:"id"`
		Template   int64   `json:"storage_template"`
		Pool       string  `json:"pool"`
		Disk       string  `json:"disk_id"`
		Source     *string `json:"source_volume"`
		Size       *int64  `json:"disk_size_gb"`
		Mountpoint *string `json:"mountpoint"`
		Filesystem *string `json:"filesystem"`
		Args       string  `json:"filesystem_args"`
		// For a disk of an OVA image: the image, which scripts see as raw whatever its file was.
		Volume string `json:"volume_name,omitempty"`
		Format string `json:"volume_format,omitempty"`
	}
	ovaRow struct {
		ID      int64       `json:"id"`
		Name    string      `json:"name"`
		Volumes []volumeRow `json:"volumes"`
	}
	vmData struct {
		Arguments   map[string]string `json:"script_arguments"`
		System      systemRow         `json:"system_details"`
		MAC         *string           `json:"mac_template"`
		Networks    []networkRow      `json:"networks"`
		Volumes     []volumeRow       `json:"volumes"`
		Script      string            `json:"script"`
		OVA         *ovaRow           `json:"ova_details,omitempty"`
		Arch        string            `json:"system_architecture"`
		Monitors    []string          `json:"ceph_monitor_list"`
		MonitorPort string            `json:"ceph_monitor_port"`
		Secret      string            `json:"ceph_monitor_secret"`
	}
)

// orNull returns s, or SQL's NULL if it is empty.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// dataOf returns the data that a script receives.
func dataOf(run seedbed.ScriptRun, inst seedbed.Instance, host seedbed.ScriptHost) vmData {
	s := run.System
	d := vmData{
		Arguments: run.Arguments, MAC: orNull(string(run.Network.MAC)), Networks: []networkRow{}, Volumes: []volumeRow{}, Script: run.Script.Text,
		Arch: host.Arch, Monitors: host.Monitors, MonitorPort: host.MonitorPort, Secret: host.Secret,
		System: systemRow{
			ID: s.ID, Name: s.Name, VCPUs: s.VCPUs, Memory: int64(s.Memory / seedbed.MiB), Serial: s.Serial, VNC: s.VNC, VNCBind: orNull(s.VNCBind),
			NodeLimit: orNull(strings.Join(s.NodeLimit, ",")), NodeSelector: orNull(s.NodeSelector), Autostart: s.NodeAutostart,
			Migration: orNull(s.MigrationMethod), Downtime: s.MigrationDowntime.Milliseconds(),
		},
	}
	if s.OVAID != 0 {
		d.System.OVA = &s.OVAID
	}
	if d.Secret == "" {
		d.Secret = noSecret
	}
	own := slices.DeleteFunc(slices.Clone(inst.NICs), func(n seedbed.NIC) bool { return n.Added })
	for i, n := range run.Network.Networks {
		row := networkRow{ID: n.ID, Template: n.Template, VNI: n.VNI}
		if i < len(run.Bridges) {
			row.Bridge = run.Bridges[i]
		}
		if i < len(own) {
			row.MAC = own[i].MAC
		}
		d.Networks = append(d.Networks, row)
	}
	for _, disk := range run.Storage.Disks {
		row := volumeRow{ID: disk.ID, Template: disk.Template, Pool: disk.Pool, Disk: disk.Name, Source: orNull(disk.Source),
			Mountpoint: orNull(disk.Mountpoint), Filesystem: orNull(disk.Filesystem), Args: strings.Join(disk.FilesystemArgs, " ")}
		if disk.Size > 0 {
			gb := int64((disk.Size + seedbed.GiB - 1) / seedbed.GiB)
			row.Size = &gb
		}
		d.Volumes = append(d.Volumes, row)
	}
	if run.OVA != nil {
		d.addOVA(*run.OVA)
	}
	return d
}

// addOVA adds which of the volumes belong to an OVA image.
func (d *vmData) addOVA(ova seedbed.OVA) {
	d.OVA = &ovaRow{ID: ova.ID, Name: ova.Name, Volumes: []volumeRow{}}
	for _, v := range ova.Volumes {
		i := slices.IndexFunc(d.Volumes, func(row volumeRow) bool { return row.Disk == v.Disk && row.Source != nil && *row.Source == v.Image })
		if i < 0 {
			continue
		}
		gb := int64((v.Size + seedbed.GiB - 1) / seedbed.GiB)
		row := &d.Volumes[i]
		row.Source, row.Size, row.Volume, row.Format = nil, &gb, v.Image, "raw"
		d.OVA.Volumes = append(d.OVA.Volumes, *row)
	}
}

// scriptStart returns what starts the job's script.
func (t *task) scriptStart(ctx context.Context) (seedbed.ScriptStart, error) {
	s, err := t.scriptRun(ctx)
	if err != nil {
		return seedbed.ScriptStart{}, err
	}
	inst, err := t.scripting(ctx)
	if err != nil {
		return seedbed.ScriptStart{}, err
	}
	host, err := effects.ScriptHost.Ask(ctx, t.Worker(), effects.ToolNames{})
	if err != nil {
		return seedbed.ScriptStart{}, err
	}
	s.pools = s.pools[:0]
	for _, p := range host.Pools {
		s.pools = append(s.pools, p.Name)
	}
	data, err := json.Marshal(dataOf(s.run, inst, host))
	if err != nil {
		return seedbed.ScriptStart{}, fmt.Errorf("write the script's vm_data: %w", err)
	}
	return seedbed.ScriptStart{
		Instance: inst.ID, Name: inst.FullName().String(), Profile: inst.Profile, Number: trailing(inst.Name),
		Text: s.run.Script.Text, Data: data, Options: s.run.Script.Options, Suffix: t.suffix(),
	}, nil
}

// trailing returns the number at the end of an instance's name as an integer: PVC's vm_id, as
// described in its manual; 0 without one.
func trailing(name string) json.Number {
	digits := strings.TrimLeft(name[len(strings.TrimRight(name, "0123456789")):], "0")
	if digits == "" {
		return "0"
	}
	return json.Number(digits)
}

// scriptLimit returns the time limit of a stage in which a script may have to start again: that of
// its steps up to that stage.
func (t *task) scriptLimit(stage string) func(context.Context) time.Duration {
	return func(context.Context) time.Duration {
		limit := t.StageLimit("prepare-script")
		for _, step := range scriptSteps {
			if stage == "prepare-script" {
				break
			}
			limit += t.StageLimit(step)
			if step == stage {
				break
			}
		}
		return limit
	}
}
