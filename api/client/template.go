package client

import (
	"context"
	"net/http"
)

const (
	systems  = "/template/system"
	networks = "/template/network"
	storages = "/template/storage"
)

// SystemTemplate is the virtual hardware of an instance, as PVC shows it. VRAM is in MiB,
// MigrationMaxDowntime in milliseconds.
type SystemTemplate struct {
	ID                   int64   `json:"id"`
	Name                 string  `json:"name"`
	VCPUs                int     `json:"vcpu_count"`
	VRAM                 int64   `json:"vram_mb"`
	Serial               bool    `json:"serial"`
	VNC                  bool    `json:"vnc"`
	VNCBind              *string `json:"vnc_bind"`
	NodeLimit            *string `json:"node_limit"`
	NodeSelector         *string `json:"node_selector"`
	NodeAutostart        bool    `json:"node_autostart"`
	MigrationMethod      *string `json:"migration_method"`
	OVA                  *int64  `json:"ova"`
	MigrationMaxDowntime *int64  `json:"migration_max_downtime"`
	DiskBus              string  `json:"disk_bus"` // empty means virtio
	DiskCopy             bool    `json:"disk_copy"`
}

// SystemTemplateRequest creates or changes a system template. Nil fields are not sent, and change
// nothing.
type SystemTemplateRequest struct {
	VCPUs                *int    `json:"vcpus,omitempty"`
	VRAM                 *int    `json:"vram,omitempty"`
	Serial               *bool   `json:"serial,omitempty"`
	VNC                  *bool   `json:"vnc,omitempty"`
	VNCBind              *string `json:"vnc_bind,omitempty"`
	NodeLimit            *string `json:"node_limit,omitempty"`
	NodeSelector         *string `json:"node_selector,omitempty"`
	NodeAutostart        *bool   `json:"node_autostart,omitempty"`
	MigrationMethod      *string `json:"migration_method,omitempty"`
	MigrationMaxDowntime *int    `json:"migration_max_downtime,omitempty"`
	DiskBus              *string `json:"disk_bus,omitempty"`
	DiskCopy             *bool   `json:"disk_copy,omitempty"`
}

// SystemTemplates lists the system templates whose names match limit. An empty limit matches all.
func (c *Client) SystemTemplates(ctx context.Context, limit string) ([]SystemTemplate, error) {
	return matching[SystemTemplate](ctx, c, systems, limit)
}

// AddSystemTemplate creates a system template. VCPUs, VRAM, Serial and VNC are required.
func (c *Client) AddSystemTemplate(ctx context.Context, name string, r SystemTemplateRequest) (string, error) {
	return c.tell(ctx, http.MethodPost, at(systems, name), r)
}

// ChangeSystemTemplate changes the fields of a system template that r sets.
func (c *Client) ChangeSystemTemplate(ctx context.Context, name string, r SystemTemplateRequest) (string, error) {
	return c.tell(ctx, http.MethodPut, at(systems, name), r)
}

// RemoveSystemTemplate removes a system template that no profile names.
func (c *Client) RemoveSystemTemplate(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at(systems, name), nil)
}

// NetworkTemplate is the NICs of an instance, in their order, as PVC shows them.
type NetworkTemplate struct {
	ID       int64             `json:"id"`
	Name     string            `json:"name"`
	MAC      *string           `json:"mac_template"`
	OVA      *int64            `json:"ova"`
	Networks []TemplateNetwork `json:"networks"`
}

// TemplateNetwork is one NIC. VNI is the name of its network.
type TemplateNetwork struct {
	ID       int64  `json:"id"`
	Template int64  `json:"network_template"`
	VNI      string `json:"vni"`
}

// NetworkTemplates lists the network templates whose names match limit. An empty limit matches all.
func (c *Client) NetworkTemplates(ctx context.Context, limit string) ([]NetworkTemplate, error) {
	return matching[NetworkTemplate](ctx, c, networks, limit)
}

// AddNetworkTemplate creates a network template without networks. mac is the template for MAC
// addresses. If it is empty, the addresses are random.
func (c *Client) AddNetworkTemplate(ctx context.Context, name, mac string) (string, error) {
	return c.tell(ctx, http.MethodPost, at(networks, name), struct {
		MAC string `json:"mac_template,omitempty"`
	}{mac})
}

// RemoveNetworkTemplate removes a network template that no profile names.
func (c *Client) RemoveNetworkTemplate(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at(networks, name), nil)
}

// AddTemplateNetwork adds a NIC. A second NIC in the same network needs again.
func (c *Client) AddTemplateNetwork(ctx context.Context, template, vni string, again bool) (string, error) {
	return c.tell(ctx, http.MethodPost, at(at(networks, template)+"/net", vni), struct {
		Again bool `json:"permit_duplicate,omitempty"`
	}{again})
}

// RemoveTemplateNetwork removes every NIC in that network.
func (c *Client) RemoveTemplateNetwork(ctx context.Context, template, vni string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at(at(networks, template)+"/net", vni), nil)
}

// StorageTemplate is the disks of an instance, in their order, as PVC shows them.
type StorageTemplate struct {
	ID    int64          `json:"id"`
	Name  string         `json:"name"`
	OVA   *int64         `json:"ova"`
	Disks []TemplateDisk `json:"disks"`
}

// TemplateDisk is one disk. SizeGB is in GiB.
type TemplateDisk struct {
	ID             int64   `json:"id"`
	Template       int64   `json:"storage_template"`
	Pool           string  `json:"pool"`
	DiskID         string  `json:"disk_id"`
	SourceVolume   *string `json:"source_volume"`
	SizeGB         *int64  `json:"disk_size_gb"`
	Mountpoint     *string `json:"mountpoint"`
	Filesystem     *string `json:"filesystem"`
	FilesystemArgs string  `json:"filesystem_args"`
}

// TemplateDiskRequest is a disk of a storage template. It is a clone of Source, or blank with
// SizeGB.
type TemplateDiskRequest struct {
	Pool       string `json:"pool"`
	Source     string `json:"source_volume,omitempty"`
	SizeGB     *int   `json:"disk_size,omitempty"`
	Filesystem string `json:"filesystem,omitempty"`
	// FilesystemArgs are arguments of mkfs, dashes included.
	FilesystemArgs []string `json:"filesystem_arg,omitempty"`
	Mountpoint     string   `json:"mountpoint,omitempty"`
}

// StorageTemplates lists the storage templates whose names match limit. An empty limit matches all.
func (c *Client) StorageTemplates(ctx context.Context, limit string) ([]StorageTemplate, error) {
	return matching[StorageTemplate](ctx, c, storages, limit)
}

// AddStorageTemplate creates a storage template without disks.
func (c *Client) AddStorageTemplate(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodPost, at(storages, name), nil)
}

// RemoveStorageTemplate removes a storage template that no profile names.
func (c *Client) RemoveStorageTemplate(ctx context.Context, name string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at(storages, name), nil)
}

// AddTemplateDisk adds a disk, such as "sda".
func (c *Client) AddTemplateDisk(ctx context.Context, template, disk string, r TemplateDiskRequest) (string, error) {
	return c.tell(ctx, http.MethodPost, at(at(storages, template)+"/disk", disk), r)
}

// RemoveTemplateDisk removes a disk.
func (c *Client) RemoveTemplateDisk(ctx context.Context, template, disk string) (string, error) {
	return c.tell(ctx, http.MethodDelete, at(at(storages, template)+"/disk", disk), nil)
}
