package provision

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/worker"
)

// Do implements effects.Worker without a wire.
func (h *host) Do(ctx context.Context, x effects.Exchange) (json.RawMessage, error) {
	args, err := json.Marshal(x.Args)
	if err != nil {
		return nil, err
	}
	handler, ok := h.handlers()[x.Effect]
	if !ok {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "the host has no effect %q", x.Effect)
	}
	return handler.Run(ctx, x.Call, args, x.Listener)
}

func (h *host) handlers() effects.Handlers {
	t := effects.Handlers{}
	effects.CloneVolume.Handle(t, func(
		ctx context.Context, c seedbed.Call, a seedbed.VolumeSpec, _ effects.Listener,
	) (seedbed.VolumeInfo, error) {
		return h.CloneVolume(ctx, c, a)
	})
	effects.CopyVolume.Handle(t, func(
		ctx context.Context, c seedbed.Call, a seedbed.VolumeCopy, to effects.Listener,
	) (seedbed.VolumeInfo, error) {
		if err := h.fence(c); err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if a.FromPool != "" && a.FromPool != a.Pool {
			return worker.Transfer(ctx, c.Job, h.in(a.FromPool), h.in(a.Pool), a, to.Progress)
		}
		return h.in(a.Pool).CopyVolume(ctx, c.Job, a, to.Progress)
	})
	effects.FillVolume.Handle(t, func(
		ctx context.Context, c seedbed.Call, a effects.UploadedVolume, to effects.Listener,
	) (seedbed.VolumeInfo, error) {
		if err := h.fence(c); err != nil {
			return seedbed.VolumeInfo{}, err
		}
		return worker.FillUploaded(ctx, c.Job, h.in(a.Pool), a, to.Progress)
	})
	effects.ExportVolume.Handle(t, func(
		ctx context.Context, c seedbed.Call, a effects.VolumeExport, to effects.Listener,
	) (seedbed.Bytes, error) {
		if err := h.fence(c); err != nil {
			return 0, err
		}
		return worker.Export(ctx, c.Job, h.in(a.Pool), a, to.Progress)
	})
	effects.RemoveVolume.Handle(t, func(ctx context.Context, c seedbed.Call, a effects.VolumeRef) error {
		return h.RemoveVolume(ctx, c, a.Pool, a.Name, a.Instance)
	})
	effects.ResizeVolume.Handle(t, func(
		ctx context.Context, c seedbed.Call, a effects.VolumeSize, _ effects.Listener,
	) (seedbed.VolumeInfo, error) {
		return h.ResizeVolume(ctx, c, a.Name, a.Instance, a.Domain, a.Size)
	})
	effects.FlattenVolume.Handle(t, func(
		ctx context.Context, c seedbed.Call, a effects.VolumeRef, to effects.Listener,
	) (seedbed.VolumeInfo, error) {
		return h.FlattenVolume(ctx, c, a.Pool, a.Name, a.Instance, to.Progress)
	})
	effects.StopFlatten.Handle(t, func(ctx context.Context, c seedbed.Call, a effects.VolumeRef) error {
		return h.StopFlatten(ctx, c, a.Pool, a.Name, a.Instance)
	})
	effects.CreateSnapshot.Handle(t, func(
		ctx context.Context, c seedbed.Call, a seedbed.SnapshotSpec, _ effects.Listener,
	) (seedbed.SnapshotInfo, error) {
		return h.CreateSnapshot(ctx, c, a)
	})
	effects.RestoreSnapshot.Handle(t, func(ctx context.Context, c seedbed.Call, a seedbed.SnapshotSpec) error {
		return h.RestoreSnapshot(ctx, c, a)
	})
	effects.Snapshots.Handle(t, func(ctx context.Context, a effects.VolumeRef) ([]seedbed.SnapshotInfo, error) {
		return h.in(a.Pool).Snapshots(ctx, a.Name, a.Instance)
	})
	effects.TrashVolume.Handle(t, func(
		ctx context.Context, c seedbed.Call, a effects.VolumeRef, _ effects.Listener,
	) (*seedbed.TrashItem, error) {
		return h.TrashVolume(ctx, c, a.Pool, a.Name, a.Instance)
	})
	effects.Trash.Handle(t, func(ctx context.Context, _ effects.None) ([]seedbed.TrashItem, error) { return h.Trash(ctx) })
	effects.PurgeVolume.Handle(t, func(ctx context.Context, a effects.TrashRef) (effects.None, error) {
		return effects.None{}, h.PurgeVolume(ctx, a.Pool, a.ID, a.Early)
	})
	effects.AdoptVolume.Handle(t, func(
		ctx context.Context, c seedbed.Call, a seedbed.VolumeAdoption, _ effects.Listener,
	) (seedbed.VolumeInfo, error) {
		return h.AdoptVolume(ctx, c, a)
	})
	effects.ReleaseVolume.Handle(t, h.ReleaseVolume)
	effects.ImportImage.Handle(t, func(
		ctx context.Context, c seedbed.Call, a seedbed.ImageSpec, to effects.Listener,
	) (seedbed.ImageInfo, error) {
		return h.ImportImage(ctx, c, a, to.Progress)
	})
	effects.RemoveImage.Handle(t, func(ctx context.Context, c seedbed.Call, a effects.ImageRef) error {
		return h.RemoveImage(ctx, c, a.Pool, a.Name, a.Of)
	})
	effects.DropUpload.Handle(t, func(ctx context.Context, a effects.UploadRef) (effects.None, error) {
		return effects.None{}, h.DropUpload(ctx, a.Pool, a.ID)
	})
	h.handleBackups(t)
	h.handleDomains(t)
	effects.ProbeAddresses.Handle(t, func(_ context.Context, asked []seedbed.AddressProbe) (seedbed.AddressesProbed, error) {
		if h.probe == nil { // as a worker.Server says it
			return seedbed.AddressesProbed{}, seedbed.Errorf(seedbed.ErrInvalid, "there is no such effect: is this worker older than its seedbedd?")
		}
		return h.probe(asked), nil
	})
	effects.Inventory.Handle(t, func(ctx context.Context, _ effects.None) (seedbed.Inventory, error) { return h.Inventory(ctx) })
	effects.Report.Handle(t, func(context.Context, effects.None) (seedbed.NodeReport, error) {
		var r seedbed.NodeReport
		if boot := h.boot.Load(); boot != nil {
			r.Boot = *boot
		}
		return r, h.answers()
	})
	return t
}

func (h *host) handleDomains(t effects.Handlers) {
	effects.DefineDomain.Handle(t, h.DefineDomain)
	effects.SeedDomain.Handle(t, h.SeedDomain)
	for effect, do := range map[effects.Order[effects.DomainRef]]func(context.Context, seedbed.Call, seedbed.InstanceID) error{
		effects.UndefineDomain: h.UndefineDomain,
		effects.UndefineKept:   h.UndefineKept,
		effects.StartDomain:    h.StartDomain,
		effects.ShutdownDomain: h.ShutdownDomain,
		effects.DestroyDomain:  h.DestroyDomain,
		effects.CloseScript:    h.CloseScript,
	} {
		effect.Handle(t, func(ctx context.Context, c seedbed.Call, a effects.DomainRef) error { return do(ctx, c, a.ID) })
	}
	effects.ResizeDomain.Handle(t, func(ctx context.Context, c seedbed.Call, a effects.DomainSize) error {
		return h.ResizeDomain(ctx, c, a.ID, a.VCPUs, a.Memory)
	})
	effects.RenameDomain.Handle(t, func(ctx context.Context, c seedbed.Call, a effects.NamedDomain) error {
		if err := h.fence(c); err != nil {
			return err
		}
		return h.hv.RenameDomain(ctx, a.ID, a.Name)
	})
	effects.ChangeDomain.Handle(t, func(
		ctx context.Context, c seedbed.Call, a seedbed.DomainChange, _ effects.Listener,
	) (changed effects.DomainChanged, err error) {
		if err := h.fence(c); err != nil {
			return changed, err
		}
		changed.Pending, err = h.hv.ChangeDomain(ctx, a)
		return changed, err
	})
	effects.ImageDisk.Handle(t, func(ctx context.Context, a effects.ImageRef) (seedbed.Disk, error) {
		if err := h.answers(); err != nil {
			return seedbed.Disk{}, err
		}
		return h.pool.ImageDisk(ctx, a.Name)
	})
	h.handleMoves(t)
	h.handleFences(t)
	effects.AttachDisk.Handle(t, h.AttachDisk)
	effects.DetachDisk.Handle(t, h.DetachDisk)
	effects.LimitDisk.Handle(t, h.LimitDisk)
	effects.AttachNIC.Handle(t, h.AttachNIC)
	effects.DetachNIC.Handle(t, h.DetachNIC)
	effects.Volume.Handle(t, func(ctx context.Context, a effects.VolumeRef) (seedbed.VolumeInfo, error) {
		if err := h.answers(); err != nil {
			return seedbed.VolumeInfo{}, err
		}
		return h.in(a.Pool).Volume(ctx, a.Name, a.Instance)
	})
	effects.AdoptDomain.Handle(t, h.AdoptDomain)
	effects.ReleaseDomain.Handle(t, h.ReleaseDomain)
	effects.DomainState.Handle(t, func(ctx context.Context, a effects.DomainRef) (seedbed.DomainInfo, error) {
		return h.DomainState(ctx, a.ID)
	})
	effects.Watch.Handle(t, h.Watch)
	effects.RunScript.Handle(t, func(
		ctx context.Context, c seedbed.Call, a seedbed.ScriptTurn, to effects.Listener,
	) (seedbed.ScriptResult, error) {
		return h.RunScript(ctx, c, a, to.Output)
	})
	effects.ScriptHost.Handle(t, func(ctx context.Context, a effects.ToolNames) (seedbed.ScriptHost, error) {
		return h.ScriptHost(ctx, a.Tools)
	})
	effects.CheckDomain.Handle(t, h.CheckDomain)
	effects.RunHook.Handle(t, func(ctx context.Context, c seedbed.Call, a seedbed.HookRun, to effects.Listener) (seedbed.HookResult, error) {
		return h.RunHook(ctx, c, a, to.Output)
	})
}

// handleBackups adds the effects of the real worker, with the host's fence.
func (h *host) handleBackups(t effects.Handlers) {
	backups := effects.Handlers{}
	worker.HandleFreezes(t, h.hv, h.closed, slog.New(slog.DiscardHandler))
	worker.HandleBackups(backups, worker.Backups{Dirs: []string{os.TempDir()}}, slog.New(slog.DiscardHandler),
		func(name string, _ seedbed.InstanceID) (worker.Archiver, error) { return h.in(name), nil })
	worker.HandleOpenSnapshots(backups, h.hv, slog.New(slog.DiscardHandler),
		func(name string, _ seedbed.InstanceID) (worker.Pool, error) { return h.in(name), nil })
	for name, handler := range backups {
		run := handler.Run
		handler.Run = func(ctx context.Context, call seedbed.Call, args json.RawMessage, to effects.Listener) (json.RawMessage, error) {
			check := h.answers
			if handler.Fenced {
				check = func() error { return h.fence(call) }
			}
			if err := check(); err != nil {
				return nil, err
			}
			return run(ctx, call, args, to)
		}
		t[name] = handler
	}
}
