package storage

import (
	"bytes"
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func volumeDownload(a *cli.App) *cobra.Command {
	var (
		r   seedbed.VolumeDownload
		w   cli.WaitFlags
		dry bool
	)
	c := &cobra.Command{
		Use:   "download NAME [FILE|-]",
		Short: "Download a volume as a disk image",
		Long: `Download a volume to a disk image of this machine: NAME.qcow2 or NAME.raw, or FILE; - is the
standard output, unless that is a terminal. A job makes a file of the volume on its node, and
nothing else can change the volume until then. In a directory pool, an instance that has it must
be stopped; in a Ceph pool it may run, and the file has what a power cut would have left. Then the
file is sent. It is written here only when all of it has come with the right digest, and removed
from the node. If the download breaks, the file stays there for a day, and --job downloads it.`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.Completion(cli.VolumesIn(seedbed.VolumeFree, seedbed.VolumeAttached), cli.Files),
	}
	job := ""
	c.RunE = a.Call(func(ctx context.Context, api *client.Client, args []string) error {
		file := args[0] + "." + seedbed.FileQCOW2
		if r.Format == seedbed.FileRaw {
			file = args[0] + "." + seedbed.FileRaw
		}
		if len(args) > 1 {
			file = args[1]
		}
		req := seedbed.Request{Action: seedbed.DoVolumeDownload, Name: args[0], Volume: seedbed.VolumeOrder{Download: r}}
		if dry {
			return a.ShowPlan(api.PlanVolume(ctx, req))
		}
		var to cli.Target
		var err error
		switch {
		case file == "-" && a.Terminal:
			return cli.Usagef("a disk image is not for a terminal: name a file, or redirect the output")
		case file != "-":
			if to, err = cli.NewTarget(file, args[0]+"."+seedbed.FileQCOW2); err != nil {
				return err
			}
		}
		if job == "" {
			receipt, err := api.ChangeVolume(ctx, req)
			if err != nil {
				return err
			}
			job = string(receipt.Job)
			quiet := *a
			if file == "-" {
				quiet.Out = a.Err // the standard output is the file
			}
			if err := quiet.Follow(ctx, api, job, w.Timeout, false); err != nil {
				return err
			}
		}
		fetch := func(to io.Writer) error { return fetchVolume(ctx, api, job, to) }
		if file == "-" {
			return fetch(a.Out)
		}
		if err := to.Write(fetch); err != nil {
			return err
		}
		a.Say("volume %s is in %s", args[0], to.Path())
		return nil
	})
	a.Fill(c, &r, cli.Flag{Field: "format", Name: "file-format", Usage: "`FORMAT` of the file: qcow2 or raw (default: qcow2)"})
	c.Flags().StringVar(&job, "job", "", "download what an earlier `JOB` has made of the volume, and make nothing")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be done and what prevents it")
	w.AddTimeout(c)
	return c
}

// fetchVolume writes the file that a job has made of a volume.
func fetchVolume(ctx context.Context, api *client.Client, job string, w io.Writer) error {
	from, err := api.DownloadVolume(ctx, job)
	if err != nil {
		return err
	}
	defer from.Close()
	stop := context.AfterFunc(ctx, func() { _ = from.Close() })
	defer stop()
	to := &holes{w: w}
	_, err = io.Copy(to, from)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return to.end()
}

// holes writes to a file, and leaves out blocks of zeros if it is a regular one.
type holes struct {
	w    io.Writer
	left int64 // how many bytes were left out since the last write
}

// Write implements io.Writer.
func (h *holes) Write(b []byte) (int, error) {
	f, ok := h.w.(*os.File)
	if !ok {
		return h.w.Write(b)
	}
	if len(b) > 0 && len(bytes.TrimLeft(b, "\x00")) == 0 {
		if _, err := f.Seek(int64(len(b)), io.SeekCurrent); err == nil {
			h.left += int64(len(b))
			return len(b), nil
		}
	}
	h.left = 0
	return f.Write(b)
}

// end makes the file as long as what was written to it.
func (h *holes) end() error {
	f, ok := h.w.(*os.File)
	if !ok || h.left == 0 {
		return nil
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	return f.Truncate(size)
}
