package metadata

import (
	"slices"

	"seedbed"
)

// record is what is served for an instance in one state. It never changes.
type record struct {
	guest seedbed.Guest
	// userData and vendorData are nil if there is no document; an empty document is not nil.
	userData, vendorData []byte
	networks             []*seedbed.Network // of guest.NICs; nil if unknown
	site                 seedbed.Site
	maintenance          []seedbed.Maintenance // the guest's own and its node's
	id                   string                // instance-id as served
	of                   *index                // that it was made from; nil if it was not made from an index
}

// View is one guest with everything that its answers are made from.
type View struct {
	Guest       seedbed.Guest
	Documents   seedbed.Documents
	Networks    []seedbed.Network
	Site        seedbed.Site
	Maintenance []seedbed.Maintenance
}

// Render returns what the guest would get for a GET of path, such as "/latest/meta-data/" or
// "/openstack/latest/meta_data.json", without a connection or a token. ok is false if the guest
// would get 404.
func Render(v View, path string) (body []byte, contentType string, ok bool) {
	r := newRecord(v, func(name string) *seedbed.Network {
		for i := range v.Networks {
			if v.Networks[i].Name == name {
				return &v.Networks[i]
			}
		}
		return nil
	})
	a := r.get(path)
	return a.body, a.mediaType, a.ok
}

// newRecord returns the record that v is served from, without the hidden NICs. network finds a network by its name; nil if
// it is unknown.
func newRecord(v View, network func(name string) *seedbed.Network) *record {
	v.Guest.NICs = v.Guest.Shown()
	r := &record{guest: v.Guest, userData: v.Documents.UserData, vendorData: v.Documents.VendorData,
		networks: make([]*seedbed.Network, len(v.Guest.NICs)), site: v.Site, id: v.Guest.ServedID(),
		maintenance: slices.Concat(v.Guest.Maintenance, v.Maintenance, expiry(v.Guest))}
	for i, nic := range v.Guest.NICs {
		r.networks[i] = network(nic.Network)
	}
	return r
}

// record returns the record of an instance; nil if x does not serve it.
func (x *index) record(id seedbed.InstanceID) *record {
	g, ok := x.state.Guest(id)
	if !ok {
		return nil
	}
	docs := seedbed.Documents{UserData: x.document(g.UserData), VendorData: x.document(g.VendorData)}
	r := newRecord(View{Guest: g, Documents: docs, Site: x.state.Site, Maintenance: x.state.Maintenance},
		func(name string) *seedbed.Network {
			n, ok := x.networks[name]
			if !ok {
				return nil
			}
			return &x.state.Networks[n]
		})
	r.of = x
	return r
}

func (x *index) document(b *seedbed.Blob) []byte {
	if b == nil {
		return nil
	}
	data, _ := x.state.Blob(b.SHA256) // it existed when x was made
	if data == nil {
		data = []byte{}
	}
	return data
}
