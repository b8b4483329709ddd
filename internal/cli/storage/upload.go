package storage

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
)

func imageUpload(a *cli.App) *cobra.Command {
	var (
		r   wire.ImageRequest
		w   cli.WaitFlags
		dry bool
	)
	c := &cobra.Command{
		Use:   "upload NAME FILE",
		Short: "Upload a disk image from this machine and import it",
		Long: `Upload a disk image (qcow2, raw, vmdk, vdi, an ISO, or an OVA with one disk) from
this machine and import it. The server checks its digest during the upload; an
incomplete upload leaves nothing behind. For an OVA with several disks, use
seedbed ova upload.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			f, size, err := openUpload(args[1])
			if err != nil {
				return err
			}
			defer f.Close()
			r.Name, r.SHA256 = args[0], strings.ToLower(r.SHA256)
			if dry {
				return tellImport(ctx, a, api, importOf(r, size))
			}
			bar := newUploadBar(a, f, size)
			receipt, err := api.UploadImage(ctx, r, bar, size)
			bar.end()
			return a.Finish(ctx, api, &w, receipt, err)
		}),
		ValidArgsFunction: a.Completion(cli.NoNames, cli.Files),
	}
	a.Fill(c, &r, imageFlags("`NODE` that receives the file (default: the control host, or the first node that has the pool)")...)
	dryFlag(c, &dry)
	w.AddJob(a, c)
	return c
}

func volumeUpload(a *cli.App) *cobra.Command {
	var (
		r wire.VolumeUpload
		w cli.WaitFlags
	)
	c := &cobra.Command{
		Use:   "upload NAME FILE",
		Short: "Upload a disk image from this machine and make a volume of it",
		Long: `Upload a disk image (qcow2 or raw) from this machine and make a volume of it, which no
instance has. The server checks its digest during the upload; an incomplete upload
leaves nothing behind. The volume has the size of the disk, or --size if that is larger.
A raw disk without boot signature and partition table needs --file-format raw.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			f, size, err := openUpload(args[1])
			if err != nil {
				return err
			}
			defer f.Close()
			r.Name, r.SHA256 = args[0], strings.ToLower(r.SHA256)
			bar := newUploadBar(a, f, size)
			receipt, err := api.UploadVolume(ctx, r, bar, size)
			bar.end()
			return a.Finish(ctx, api, &w, receipt, err)
		}),
		ValidArgsFunction: a.Completion(cli.NoNames, cli.Files),
	}
	a.Fill(c, &r,
		cli.Flag{Field: "pool", Usage: "`POOL` that is to have it (default: the first)"},
		cli.Flag{Field: "size", Usage: "`SIZE` of the volume, such as 10GiB (default: that of the disk)", Parse: size},
		cli.Flag{Field: "sha256", Usage: "expected SHA-256 `DIGEST` of the file, in hexadecimal"},
		cli.Flag{Field: "format", Name: "file-format", Usage: "expected `FORMAT` of the file: qcow2 or raw (default: either)"},
		cli.Flag{Field: "node", Usage: "`NODE` that receives the file (default: the control host, or the first node that has the pool)"},
	)
	w.AddJob(a, c)
	return c
}

// imageFlags are the flags of commands that make an image. node describes the flag of its node.
func imageFlags(node string) []cli.Flag {
	return []cli.Flag{
		{Field: "pool", Usage: "`POOL` to import into (default: the first)"},
		{Field: "sha256", Usage: "expected SHA-256 `DIGEST` of the file, in hexadecimal"},
		{Field: "format", Name: "file-format", Usage: "expected `FORMAT` of the file: qcow2, raw, vmdk, vdi, iso or ova (default: any)"},
		{Field: "firmware", Usage: "`FIRMWARE` of instances with this root disk: bios, uefi or uefi-secure (default: from the OVA, else bios)"},
		{Field: "node", Usage: node},
	}
}

// openUpload opens a file whose size is known, and returns its size.
func openUpload(path string) (*os.File, seedbed.Bytes, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = seedbed.Errorf(seedbed.ErrInvalid, "%s is not a regular file: expected a disk image or an .ova file", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, seedbed.Bytes(st.Size()), nil
}

// uploadBar reads a file that is being uploaded. On a terminal, it shows how much has been sent.
type uploadBar struct {
	a     *cli.App
	file  io.Reader
	size  seedbed.Bytes
	sent  seedbed.Bytes
	began time.Time
	drawn time.Time
}

func newUploadBar(a *cli.App, file io.Reader, size seedbed.Bytes) *uploadBar {
	return &uploadBar{a: a, file: file, size: size, began: a.Now()}
}

// redraw is the least time between two updates of the bar.
const redraw = 100 * time.Millisecond

// Read implements io.Reader.
func (b *uploadBar) Read(p []byte) (int, error) {
	n, err := b.file.Read(p)
	b.sent += seedbed.Bytes(n)
	if now := b.a.Now(); b.a.Redraws() && now.Sub(b.drawn) >= redraw {
		b.drawn = now
		fmt.Fprint(b.a.Out, "\r\x1b[K"+b.line(now, cli.Columns()))
	}
	return n, err
}

// line returns the bar in at most width columns.
func (b *uploadBar) line(now time.Time, width int) string {
	done := 1.0
	if b.size > 0 {
		done = min(1, float64(b.sent)/float64(b.size))
	}
	took := now.Sub(b.began)
	rate := seedbed.Bytes(float64(b.sent) / max(took.Seconds(), 0.001))
	return cli.Bar(done, width, "upload %d of %d MiB, %d MiB/s, %s", b.sent/seedbed.MiB, b.size/seedbed.MiB, rate/seedbed.MiB, cli.Span(took))
}

// end removes the bar.
func (b *uploadBar) end() {
	if b.a.Redraws() && !b.drawn.IsZero() {
		fmt.Fprint(b.a.Out, "\r\x1b[K")
	}
}

// dryFlag adds --dry-run to a command that imports.
func dryFlag(c *cobra.Command, dry *bool) {
	c.Flags().BoolVar(dry, "dry-run", false, "only show what would be done and what prevents it")
}

// importOf returns the request for the plan of an import. size is that of a file to be uploaded, or 0.
func importOf(r wire.ImageRequest, size seedbed.Bytes) seedbed.ImportRequest {
	return seedbed.ImportRequest{
		Name: r.Name, Pool: r.Pool, Path: r.Path, From: r.From, Generalise: r.Generalise, Size: size, SHA256: r.SHA256,
		Format: r.Format, Firmware: r.Firmware, Node: r.Node,
	}
}

// tellImport prints what an import would make. It returns an error if the import would be refused.
func tellImport(ctx context.Context, a *cli.App, api *client.Client, req seedbed.ImportRequest) error {
	p, err := api.PlanImport(ctx, req)
	pool := p.Pool + cli.When(p.Free > 0, ", "+cli.Size(p.Free)+" free")
	return a.ShowPlanned(err, p, [][2]string{
		{"name", p.Name}, {"pool", pool}, {"node", p.Node}, {"size", cli.Size(p.Size)},
		{"stages", strings.Join(p.Stages, " ")}, {"notes", strings.Join(p.Notes, "\n")},
	}, p.Name, p.Problems)
}
