package pvc

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// systemRow is a system template as PVC shows it.
type systemRow struct {
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
	MigrationMaxDowntime int64   `json:"migration_max_downtime"`
	DiskBus              string  `json:"disk_bus,omitempty"`
	DiskCopy             bool    `json:"disk_copy,omitempty"`
}

// orNull returns s, or nil if s is empty.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func systemRowOf(t seedbed.SystemTemplate) systemRow {
	var ova *int64
	if t.OVAID != 0 {
		ova = &t.OVAID
	}
	return systemRow{
		OVA: ova,
		ID:  t.ID, Name: t.Name, VCPUs: t.VCPUs, VRAM: int64(t.Memory / seedbed.MiB), Serial: t.Serial, VNC: t.VNC, VNCBind: orNull(t.VNCBind),
		NodeLimit: orNull(strings.Join(t.NodeLimit, ",")), NodeSelector: orNull(t.NodeSelector), NodeAutostart: t.NodeAutostart,
		MigrationMethod: orNull(t.MigrationMethod), MigrationMaxDowntime: t.MigrationDowntime.Milliseconds(),
		DiskBus: t.DiskBus, DiskCopy: t.DiskCopy,
	}
}

const (
	defaultDowntime = 300 * time.Millisecond
	// maxNumber keeps a number in the range of the arithmetic done with it. The store decides which
	// values are valid.
	maxNumber = 1 << 30
)

func (r *router) systems() collection[seedbed.SystemTemplate] {
	return collection[seedbed.SystemTemplate]{
		r: r, kind: seedbed.PublishedSystemTemplate, list: r.Store.SystemTemplates, none: "No system templates found.",
		names:   func(t *seedbed.SystemTemplate) []*string { return []*string{&t.Name} },
		numbers: func(t *seedbed.SystemTemplate) []*int64 { return []*int64{&t.ID, &t.OVAID} },
		to:      func(t *seedbed.SystemTemplate) *seedbed.Publication { return t.Published },
	}
}

func (r *router) systemRoutes(p string, get, post, put, del routing) {
	get(seedbed.ActionTemplateRead, p, listed(r.systems(), systemRowOf))
	get(seedbed.ActionTemplateRead, p+"/:name", element(r.systems(), systemRowOf))
	creating(post, seedbed.ActionTemplateManage, p, "name", "name", nameMissing, r.createSystem)
	put(seedbed.ActionTemplateManage, p+"/:name", r.changeSystem)
	del(seedbed.ActionTemplateManage, p+"/:name", removed(r.systems(), r.Store.DeleteSystemTemplate))
}

func (r *router) createSystem(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
	for _, a := range []string{"vcpus", "vram", "serial", "vnc"} {
		f.must(a, "A "+a+" value must be specified.")
	}
	t := seedbed.SystemTemplate{MigrationDowntime: defaultDowntime}
	systemFields(f, &t, "A")
	if f.err != nil {
		return f.err
	}
	var err error
	if t.Name, err = r.systems().called(c, name); err != nil {
		return err
	}
	if err := server.ChoosesHost(c, t); err != nil {
		return err
	}
	if _, err := r.Store.CreateSystemTemplate(ctx, t); err != nil {
		return err
	}
	return say(c, `Added new system template "%s".`, name)
}

// systemFields sets the template's fields for which there are parameters. article starts the
// message about a value that is not a number.
func systemFields(f *fields, t *seedbed.SystemTemplate, article string) {
	if f.has("vcpus") {
		t.VCPUs = clamp(f.number("vcpus", article+" vcpus value must be an integer."))
	}
	if f.has("vram") {
		t.Memory = seedbed.Bytes(clamp(f.number("vram", article+" vram value must be an integer."))) * seedbed.MiB
	}
	if f.has("serial") {
		t.Serial = f.flag("serial")
	}
	if f.has("vnc") {
		t.VNC = f.flag("vnc")
	}
	if f.has("vnc_bind") {
		t.VNCBind = f.text("vnc_bind")
	}
	if !t.VNC {
		t.VNCBind = ""
	}
	if f.has("node_limit") {
		t.NodeLimit = words(f.text("node_limit"))
	}
	if f.has("node_selector") {
		if t.NodeSelector = f.text("node_selector"); strings.EqualFold(t.NodeSelector, "none") {
			t.NodeSelector = ""
		}
	}
	if f.has("node_autostart") {
		t.NodeAutostart = f.flag("node_autostart")
	}
	if f.has("migration_method") {
		t.MigrationMethod = f.text("migration_method")
	}
	if f.has("disk_bus") {
		t.DiskBus = f.text("disk_bus")
	}
	if f.has("disk_copy") {
		t.DiskCopy = f.flag("disk_copy")
	}
	if s := f.text("migration_max_downtime"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			f.refuse(refused(fiber.StatusBadRequest, "%s migration_max_downtime value must be an integer.", article))
		}
		t.MigrationDowntime = time.Duration(max(-1, min(n, maxNumber))) * time.Millisecond
	}
}

// clamp limits a number so that it can be multiplied.
func clamp(n int) int { return max(-1, min(n, maxNumber)) }

// words returns the items of a comma-separated list.
func words(s string) []string {
	var all []string
	for w := range strings.SplitSeq(s, ",") {
		if w = strings.TrimSpace(w); w != "" {
			all = append(all, w)
		}
	}
	return all
}

func (r *router) changeSystem(ctx context.Context, c *fiber.Ctx, f *fields) error {
	if systemFields(f, &seedbed.SystemTemplate{}, "The"); f.err != nil {
		return f.err
	}
	name, err := r.systems().owned(ctx, c)
	if err == nil {
		_, err = r.Store.ChangeSystemTemplate(ctx, name, func(t *seedbed.SystemTemplate) error {
			systemFields(f, t, "The")
			return server.ChoosesHost(c, *t)
		})
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		return refused(fiber.StatusNotFound, "%s", server.Sentence(err.Error()))
	}
	if err != nil {
		return err
	}
	return say(c, `Modified system template "%s".`, server.Param(c, "name"))
}
