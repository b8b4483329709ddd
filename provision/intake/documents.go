package intake

import (
	"cmp"
	"context"
	"slices"

	"seedbed"
	"seedbed/provision/placement"
	"seedbed/provision/record"
	"seedbed/provision/template"
)

// Serving is the installation's configuration of what its guests are served and where they run.
type Serving struct {
	// Node is the node on this host; empty if there is none.
	Node string
	// Network is the network of an instance that is made from an image, unless the request names one.
	Network string
	// Placement configures how a node is chosen for an instance.
	Placement placement.Config
	// Pools are the pools that may hold volumes, the default one first; nil if they are not known.
	Pools []string
	// VendorData is the installation's vendor-data; nil for none.
	VendorData []byte
	// MaxUserData limits the user-data of one guest as it is served. Default 1 MiB.
	MaxUserData seedbed.Bytes
	// MACTaken returns who, other than one of our instances, uses a MAC on a node. A nil MACTaken
	// finds no one.
	MACTaken func(node string, mac seedbed.MAC) (by string)
	// HasDomain reports whether a node has a domain of that name. Nil reports false.
	HasDomain func(ctx context.Context, node, name string) (bool, error)
	// Snapshots returns the snapshots of a volume. Nil knows none.
	Snapshots func(ctx context.Context, node, pool, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error)
	// Backups reaches the targets of backups.
	Backups Backups
	// ImportProblem returns why a node could not import a file; empty if nothing is known to prevent
	// it. A nil ImportProblem knows nothing.
	ImportProblem func(ctx context.Context, node string, spec seedbed.ImageSpec) (string, error)
	// Renderer makes the records; templates read their values.
	Renderer record.Renderer
}

// Check refuses vendor-data of the installation that could be served to no guest.
func (s Serving) Check() error {
	_, err := sources{site: s.VendorData, limit: s.limit()}.read()
	return err
}

func (s Serving) limit() seedbed.Bytes { return cmp.Or(s.MaxUserData, seedbed.MiB) }

// sources are the documents from which a guest's documents are made.
type sources struct {
	ready seedbed.Ready
	// user is the profile's or the request's user-data, vendor the profile's or the request's
	// vendor-data, and site the installation's vendor-data.
	user, vendor, site []byte
	// inUser is set if vendor-data is sent as part of the user-data.
	inUser bool
	// only6 is set if the guest reaches the metadata service over IPv6 alone.
	only6 bool
	// cdrom is set if the guest gets them by CD-ROM.
	cdrom bool
	limit seedbed.Bytes
	// declared are the parameters that the profile's documents may read; nil allows any.
	declared []seedbed.Param
}

// sourcesOf returns the sources of an instance with the request options s.
func (in *Intake) sourcesOf(ready seedbed.Ready, s shape) sources {
	return sources{
		ready: ready, user: s.userData, vendor: s.vendorData, site: in.serving.VendorData, limit: in.serving.limit(),
		// The other datasources read vendor-data themselves.
		cdrom:  s.metadata.By == seedbed.MetadataCDROM,
		inUser: s.vendorInUser && (s.datasource == seedbed.DatasourceEC2 || s.datasource == seedbed.DatasourceNone),
	}
}

// recipe is sources with their templates parsed.
type recipe struct {
	sources
	user, vendor, site *template.Template // nil for a document that is not a template
}

// read parses the templates among the sources.
func (s sources) read() (r recipe, err error) {
	r.sources = s
	for _, d := range []struct {
		name     string
		doc      []byte
		into     **template.Template
		declared []seedbed.Param
	}{{"user_data", s.user, &r.user, s.declared}, {"vendor_data", s.vendor, &r.vendor, s.declared}, {"the installation's vendor-data", s.site,
		&r.site, nil}} {
		if err := seedbed.CheckDocument(d.name, d.doc); err != nil {
			return r, err
		}
		if len(d.doc) > int(s.limit) {
			return r, tooLarge(d.name, len(d.doc), s.limit)
		}
		if template.Is(d.doc) {
			scope, err := template.DocumentScope(d.declared)
			if err != nil {
				return r, err
			}
			if *d.into, err = template.Parse(scope, d.name, d.doc); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// templates returns the documents that depend on the instance.
func (r recipe) templates() []*template.Template {
	return slices.DeleteFunc([]*template.Template{r.user, r.vendor, r.site}, func(t *template.Template) bool { return t == nil })
}

// reads reports whether a template reads the parameter.
func (r recipe) reads(param string) bool {
	return slices.ContainsFunc(r.templates(), func(t *template.Template) bool { return t.Reads(param) })
}

// fill returns the documents with their templates evaluated.
func (r recipe) fill(token string, v template.Values) (docs seedbed.Documents, err error) {
	return r.documents(token, func(t *template.Template) ([]byte, error) { return t.Fill(v, r.limit) })
}

// check builds the documents as far as they are known before there is an instance, with unevaluated
// templates.
func (r recipe) check() error {
	_, err := r.documents("00000000000000000000000000000000", func(t *template.Template) ([]byte, error) { return t.Body(), nil })
	return err
}

func (r recipe) documents(token string, filled func(*template.Template) ([]byte, error)) (docs seedbed.Documents, err error) {
	if docs, err = r.made(token, filled); err != nil || !r.cdrom {
		return docs, err
	}
	if user, vendor := len(docs.UserData), len(docs.VendorData); user+vendor > int(seedbed.MaxSeedDocuments) {
		return seedbed.Documents{}, seedbed.Errorf(seedbed.ErrInvalid, "user_data is %d bytes and vendor_data %d as they would be on the "+
			"CD-ROM by which the guest gets its metadata: expected at most %s together", user, vendor, seedbed.MaxSeedDocuments)
	}
	return docs, nil
}

// made makes the documents, of any size that the service serves.
func (r recipe) made(token string, filled func(*template.Template) ([]byte, error)) (docs seedbed.Documents, err error) {
	user, vendor, site := r.sources.user, r.sources.vendor, r.sources.site
	for t, doc := range map[*template.Template]*[]byte{r.user: &user, r.vendor: &vendor, r.site: &site} {
		if t == nil {
			continue
		}
		if *doc, err = filled(t); err != nil {
			return docs, err
		}
	}
	vendors := []document{{"the installation's vendor-data", site}, {"vendor_data", vendor}}
	if r.inUser {
		docs.UserData, err = composeUserData(r.ready, user, reportURL(token, r.only6), r.limit, vendors...)
		return docs, err
	}
	if docs.UserData, err = composeUserData(r.ready, user, reportURL(token, r.only6), r.limit); err != nil {
		return docs, err
	}
	docs.VendorData, err = compose("vendor_data", r.limit, r.ready, vendors)
	return docs, err
}
