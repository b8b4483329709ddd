package intake

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"seedbed"
)

// needsScript reports whether the profile's script makes the disks. A script runs, as in PVC, with
// two exceptions, for which skipped says what they are: the default script of an OVA's profile,
// unless it is one that always runs, and a script that is only run if needed. Both run if a disk has
// a mountpoint or a filesystem. Disks that need a script are refused if the profile has none.
func needsScript(m tailored) (needed bool, skipped string, err error) {
	var needs, disks []string
	if t := m.parts.Storage; t != nil {
		for _, d := range t.Disks {
			switch {
			case d.Mountpoint != "":
				needs = append(needs, fmt.Sprintf("disk %s has the mountpoint %s", d.Name, d.Mountpoint))
				disks = append(disks, fmt.Sprintf("disk %s (%s)", d.Name, d.Mountpoint))
			case d.Filesystem != "":
				needs = append(needs, fmt.Sprintf("disk %s has the filesystem %s", d.Name, d.Filesystem))
				disks = append(disks, fmt.Sprintf("disk %s (%s)", d.Name, d.Filesystem))
			}
		}
	}
	if m.Script == "" && len(needs) > 0 {
		return false, "", seedbed.Errorf(seedbed.ErrInvalid,
			"profile %s has no script, and its storage template %q requires filesystems on %s: expected disks that are clones, "+
				"or blank without filesystem and mountpoint",
			m.Name, m.Storage, strings.Join(disks, ", "))
	}
	if m.parts.Script == nil {
		return false, "", nil
	}
	options := m.parts.Script.Options
	if options.Always {
		needs = append(needs, "it always runs")
	}
	empty := strings.TrimSpace(m.parts.Script.Text) == ""
	switch {
	case len(needs) > 0 && empty:
		return false, "", seedbed.Errorf(seedbed.ErrInvalid,
			"profile %q needs its script %q, which is empty: %s; expected a script that makes them, "+
				"or disks that are clones (source_volume), or blank without filesystem and mountpoint",
			m.Name, m.Script, strings.Join(needs, ", "))
	case empty:
		return false, "", nil
	case len(needs) > 0:
		return true, "", nil
	case options.IfNeeded:
		return false, fmt.Sprintf("script %s was skipped: no disk has a mountpoint or a filesystem, and it runs only if needed "+
			"(seedbed script options %s --if-needed=false has it run)", m.Script, m.Script), nil
	case m.OVA != "" && slices.Contains(seedbed.OVAScripts(), seedbed.ShortName(m.Script)):
		return false, fmt.Sprintf("script %s was skipped: the disks are clones of those of the OVA image %s "+
			"(seedbed script options %s --always has it run)", m.Script, m.OVA, m.Script), nil
	}
	return true, "", nil
}

// scriptRun returns what a job needs to run the profile's script, as of now; nil if there is no
// script or it is skipped, as skipped then says. s has the size of the instance.
func (in *Intake) scriptRun(ctx context.Context, m tailored, s shape, image seedbed.Image) (_ *seedbed.ScriptRun, skipped string,
	err error) {
	needed, skipped, err := needsScript(m)
	if err != nil || !needed {
		return nil, skipped, err
	}
	if s.disk != 0 {
		return nil, "", seedbed.Errorf(seedbed.ErrInvalid,
			"profile %s: its script makes the disks with the sizes of its storage template: expected no disk size", m.Name)
	}
	run := seedbed.ScriptRun{
		Script: *m.parts.Script, System: *m.parts.System, Network: *m.parts.Network, Storage: *m.storage(image), OVA: m.parts.OVA,
		Bridges: []string{}, Arguments: map[string]string{},
	}
	run.System.VCPUs, run.System.Memory = s.vcpus, s.memory
	if m.Network != "" {
		run.Network.Networks = slices.Concat([]seedbed.TemplateNetwork{{VNI: m.Network}}, run.Network.Networks)
	}
	for i, n := range run.Network.Networks {
		network, err := in.reading(m, i)(ctx, m, n.VNI)
		if err != nil {
			return nil, "", err
		}
		run.Bridges = append(run.Bridges, network.Bridge)
	}
	for _, a := range slices.Concat(m.Arguments, m.asked) {
		key, value, _ := strings.Cut(a, "=")
		run.Arguments[key] = value
	}
	for _, p := range m.Params {
		if text, ok := m.params[p.Name].(string); ok && p.Type == seedbed.ParamSecret {
			run.Secrets = append(run.Secrets, text)
		}
	}
	return &run, "", nil
}
