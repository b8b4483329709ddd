package catalogue

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/store/sqldb"
)

const networkColumns = `name, mac, revision, created, changed`

// networkValues returns the values of networkColumns.
func networkValues(t seedbed.NetworkTemplate) []any {
	return []any{t.Name, t.MAC, t.Revision, sqldb.Micros(t.Created), sqldb.Micros(t.Changed)}
}

func scanNetworkTemplate(r sqldb.Row) (t seedbed.NetworkTemplate, err error) {
	t.Networks = []seedbed.TemplateNetwork{}
	err = r.Scan(&t.ID, &t.Name, &t.MAC, &t.Revision, sqldb.ToTime(&t.Created), sqldb.ToTime(&t.Changed))
	return t, err
}

func scanTemplateNetwork(r sqldb.Row) (n seedbed.TemplateNetwork, err error) {
	err = r.Scan(&n.ID, &n.Template, &n.VNI)
	return n, err
}

// CreateNetworkTemplate adds a network template without networks.
func (s *Store) CreateNetworkTemplate(ctx context.Context, name string, mac seedbed.MACTemplate) (t seedbed.NetworkTemplate, err error) {
	if err := seedbed.CheckQualifiedName(kindNetwork.Noun(), name); err != nil {
		return t, err
	}
	if err := checkMAC(mac); err != nil {
		return t, err
	}
	t = seedbed.NetworkTemplate{ObjectMeta: newStored(), Name: name, MAC: mac, Networks: []seedbed.TemplateNetwork{}}
	t.ID, err = s.createObject(ctx, kindNetwork, `network_template (`+networkColumns+`)`, name, networkValues(t)...)
	return t, err
}

// checkMAC returns ErrInvalid for a template of MAC addresses that cannot make any. Empty means
// random ones.
func checkMAC(mac seedbed.MACTemplate) error {
	if mac == "" {
		return nil
	}
	return mac.Check()
}

// NetworkTemplates returns the network templates whose names match, sorted by name.
func (s *Store) NetworkTemplates(ctx context.Context, m seedbed.NameMatch) (all []seedbed.NetworkTemplate, err error) {
	err = s.db.View(ctx, "list network templates", func(tx *sqldb.Tx) error {
		all, err = networkTemplates(ctx, tx, m)
		return err
	})
	return all, err
}

func networkTemplates(ctx context.Context, tx *sqldb.Tx, m seedbed.NameMatch) ([]seedbed.NetworkTemplate, error) {
	all, err := objects(ctx, tx, kindNetwork, scanNetworkTemplate, func(t seedbed.NetworkTemplate) string { return t.Name }, m,
		`SELECT id, `+networkColumns+` FROM network_template WHERE %s ORDER BY name`)
	if err != nil {
		return nil, err
	}
	nets, err := matched(ctx, tx, scanTemplateNetwork, m, "t.name",
		`SELECT n.id, n.template, n.vni FROM network_template_net n JOIN network_template t ON t.id = n.template WHERE %s ORDER BY n.id`)
	if err != nil {
		return nil, err
	}
	at := map[int64]int{}
	for i, t := range all {
		at[t.ID] = i
	}
	for _, n := range nets {
		t := &all[at[n.Template]]
		t.Networks = append(t.Networks, n)
	}
	return all, nil
}

// readNetwork reads the network template of that name.
func readNetwork(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.NetworkTemplate, error) {
	found, err := networkTemplates(ctx, tx, seedbed.ExactName(name))
	return only(kindNetwork, name, found, err)
}

// ChangeNetworkTemplate changes a network template by calling change, possibly more than once.
// change may set anything except the name. It adds NICs without an ID, after those that are there;
// each must be in a network that exists, or the error is ErrInvalid. Instances that were made from
// the template do not change. ChangeNetworkTemplate returns ErrNotFound, ErrInvalid or the error of
// change.
func (s *Store) ChangeNetworkTemplate(
	ctx context.Context, name string, change func(*seedbed.NetworkTemplate) error,
) (t seedbed.NetworkTemplate, err error) {
	err = s.locked(ctx, "change", kindNetwork, name, func(tx *sqldb.Tx) error {
		was, err := readNetwork(ctx, tx, name)
		if err != nil {
			return err
		}
		t = was
		t.Networks = slices.Clone(was.Networks)
		if err := change(&t); err != nil {
			return err
		}
		t.Name, t.ObjectMeta = was.Name, changed(was.ObjectMeta)
		if err := checkMAC(t.MAC); err != nil {
			return err
		}
		if err := update(ctx, tx, "network_template", networkColumns, t.ID, networkValues(t)); err != nil {
			return err
		}
		err = setParts(ctx, tx, "network_template_net", was.Networks, t.Networks,
			func(n seedbed.TemplateNetwork) int64 { return n.ID },
			func(n seedbed.TemplateNetwork) error { return insertNetwork(ctx, tx, t, n.VNI) })
		if err != nil {
			return err
		}
		t, err = readNetwork(ctx, tx, name)
		return err
	})
	return t, err
}

// insertNetwork adds a NIC to the network template, in a network that the template's project uses. copy
// counts the NICs in the same network.
func insertNetwork(ctx context.Context, tx *sqldb.Tx, t seedbed.NetworkTemplate, vni string) error {
	network, err := Resolve(ctx, tx, seedbed.PublishedNetwork, seedbed.ProjectOf(t.Name), vni)
	if err != nil {
		return orInvalid(err, "the network VNI %q is not present on the cluster", sqldb.Clean(vni, 80))
	}
	return sqldb.Exec(ctx, tx, `
		INSERT INTO network_template_net (template, vni, copy)
		VALUES ($1, $2, (SELECT COALESCE(MAX(copy) + 1, 0) FROM network_template_net WHERE template = $1 AND vni = $2))`, t.ID, network)
}

// PublishNetworkTemplate says to which other projects a network template is published; see [Store.PublishProfile].
func (s *Store) PublishNetworkTemplate(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.NetworkTemplate) error,
) (seedbed.NetworkTemplate, error) {
	return publish(ctx, s, kindNetwork, name, to, readNetwork, checks)
}

// DeleteNetworkTemplate removes a network template with its networks. If profiles use it,
// DeleteNetworkTemplate returns an ErrInUse that names them. If the template does not pass a check,
// it returns the error of that.
func (s *Store) DeleteNetworkTemplate(ctx context.Context, name string, checks ...func(seedbed.NetworkTemplate) error) error {
	return deleteObject(ctx, s, kindNetwork, "network_template", name, readNetwork, checks)
}
