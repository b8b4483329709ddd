package template

import (
	"maps"

	"seedbed"
)

// Values are the values that a document's expressions read.
type Values struct {
	Guest seedbed.Guest
	// Params are the request's params: strings, whole numbers and booleans.
	Params map[string]any
}

// Named returns params by the names that expressions use for them.
func Named(params map[string]any) map[string]any {
	act := map[string]any{"param": params}
	if params == nil {
		act["param"] = map[string]any{}
	}
	for name, v := range params {
		act["param."+name] = v
	}
	return act
}

// activation returns the values by name.
func (v Values) activation() map[string]any {
	g := v.Guest
	act := Named(v.Params)
	maps.Copy(act, map[string]any{
		"vm.name": g.Name, "vm.id": g.ServedID(), "vm.uuid": string(g.ID), "vm.profile": g.Profile, "vm.image": g.Image, "vm.node": g.Node,
		"vm.vcpus": int64(g.VCPUs), "vm.memory": int64(g.Memory), "vm.mac": "", "vm.ip": "", "vm.network": "",
		"profile.name": g.Profile, "profile.image": g.Image, "profile.vcpus": int64(g.VCPUs), "profile.memory": int64(g.Memory),
		"profile.network": "", "profile.disk": int64(0),
		"region": g.Region, "zone": g.Zone, "tag": g.Tags,
	})
	if g.Tags == nil {
		act["tag"] = map[string]string{}
	}
	if nics := g.Shown(); len(nics) > 0 {
		nic := nics[0]
		act["vm.mac"], act["vm.network"], act["profile.network"] = nic.MAC.String(), nic.Network, nic.Network
		if nic.Addr.IsValid() {
			act["vm.ip"] = nic.Addr.String()
		}
	}
	if len(g.Disks) > 0 {
		act["profile.disk"] = int64(g.Disks[0].Size)
	}
	if n, ok := Number(g.Name); ok {
		act["vm.number"] = n
	}
	return act
}
