package provision

import (
	"context"

	"seedbed"
	"seedbed/provision/libvirt"
)

func (h *host) RunScript(
	ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn, output func(seedbed.OutputLine),
) (seedbed.ScriptResult, error) {
	if err := h.fence(call); err != nil {
		return seedbed.ScriptResult{}, err
	}
	return h.scripts.RunScript(ctx, call, turn, output)
}

func (h *host) CloseScript(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error {
	if err := h.fence(call); err != nil {
		return err
	}
	return h.scripts.CloseScript(ctx, call.Job, id)
}

func (h *host) ScriptHost(ctx context.Context, tools []string) (seedbed.ScriptHost, error) {
	info, err := h.pool.Info(ctx)
	return seedbed.ScriptHost{
		Arch: "x86_64", Pools: []seedbed.PoolInfo{info}, Missing: h.scripts.Tools(tools), Monitors: []string{"mon1"}, MonitorPort: "3300",
	}, err
}

var xmlHost = libvirt.Host{DomainType: libvirt.TypeQEMU, Arch: "x86_64", Machine: "pc", ConsoleDir: "/console"}

// checkDocument refuses what the real driver would not define.
func checkDocument(spec seedbed.DomainSpec) error {
	if spec.Script == nil {
		return nil
	}
	_, _, err := libvirt.ScriptedXML(spec, xmlHost)
	return err
}

func (h *host) CheckDomain(_ context.Context, spec seedbed.DomainSpec) ([]string, error) {
	_, notes, err := libvirt.ScriptedXML(spec, xmlHost)
	return notes, err
}

func (m *mortal) AddVolume(ctx context.Context, ref seedbed.JobRef, v seedbed.Volume) error {
	return m.around("add-volume", "", func() error { return m.taken(ref, m.DB.AddVolume(ctx, ref, v)) })
}

func (m *mortal) DropVolume(ctx context.Context, ref seedbed.JobRef, pool, name string) error {
	return m.around("drop-volume", "", func() error { return m.taken(ref, m.DB.DropVolume(ctx, ref, pool, name)) })
}

func (m *mortal) SetScriptDomain(ctx context.Context, ref seedbed.JobRef, xml string) error {
	return m.around("domain", "", func() error { return m.taken(ref, m.DB.SetScriptDomain(ctx, ref, xml)) })
}
