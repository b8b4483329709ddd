package catalogue

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

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
	if err := seedbed.CheckName(kindNetwork, name); err != nil {
		return t, err
	}
	if mac != "" {
		if err := mac.Check(); err != nil {
			return t, err
		}
	}
	t = seedbed.NetworkTemplate{ObjectMeta: newStored(), Name: name, MAC: mac, Networks: []seedbed.TemplateNetwork{}}
	t.ID, err = s.createObject(ctx, kindNetwork, intoNetworkTemplate, name, name, mac, t.Revision,
		sqldb.Micros(t.Created), sqldb.Micros(t.Changed))
	return t, err
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
	all, err := matched(ctx, tx, scanNetworkTemplate, m, "name",
		`SELECT id, name, mac, revision, created, changed FROM network_template WHERE %s ORDER BY name`)
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

// AddTemplateNetwork adds a NIC to a network template, after its other NICs. vni must be the name
// of a network, or the error is ErrInvalid. A second NIC on the same network is ErrExists unless
// again is set.
func (s *Store) AddTemplateNetwork(ctx context.Context, template, vni string, again bool) error {
	return s.db.Update(ctx, "change "+kindNetwork+" "+sqldb.Clean(template, 80), func(tx *sqldb.Tx) error {
		id, err := touchObject(ctx, tx, kindNetwork, "network_template", template)
		if err != nil {
			return err
		}
		_, err = sqldb.One(ctx, tx, sqldb.Value[int],
			seedbed.Errorf(seedbed.ErrInvalid, "the network VNI %q is not present on the cluster", sqldb.Clean(vni, 80)),
			`SELECT 1 FROM network WHERE name = $1`, vni)
		if err != nil {
			return err
		}
		var nics, next int
		err = tx.QueryRowContext(ctx,
			`SELECT COUNT(*), COALESCE(MAX(CASE WHEN vni = $2 THEN copy END) + 1, 0) FROM network_template_net WHERE template = $1`,
			id, vni).Scan(&nics, &next)
		if err != nil {
			return err
		}
		if nics >= MaxNICs {
			return seedbed.Errorf(seedbed.ErrInvalid, "the network template %q has %d networks: a machine has no more NICs", template, nics)
		}
		if !again {
			next = 0
		}
		made, err := sqldb.Affect(ctx, tx,
			`INSERT INTO network_template_net (template, vni, copy) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, id, vni, next)
		if err == nil && made == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "the VNI %q in network template %q already exists", vni, template)
		}
		return err
	})
}

// RemoveTemplateNetwork removes every NIC on that network from a network template.
func (s *Store) RemoveTemplateNetwork(ctx context.Context, template, vni string) error {
	return s.db.Update(ctx, "change "+kindNetwork+" "+sqldb.Clean(template, 80), func(tx *sqldb.Tx) error {
		id, err := touchObject(ctx, tx, kindNetwork, "network_template", template)
		if err != nil {
			return err
		}
		n, err := sqldb.Affect(ctx, tx, `DELETE FROM network_template_net WHERE template = $1 AND vni = $2`, id, vni)
		if err == nil && n == 0 || err != nil && sqldb.Unstorable(err) {
			err = seedbed.Errorf(seedbed.ErrNotFound, "the VNI %q in network template %q does not exist", sqldb.Clean(vni, 80), template)
		}
		return err
	})
}

// DeleteNetworkTemplate removes a network template with its networks. If profiles use it,
// DeleteNetworkTemplate returns an ErrInUse that names them.
func (s *Store) DeleteNetworkTemplate(ctx context.Context, name string) error {
	return s.deleteObject(ctx, kindNetwork, "network_template", "network_template", name)
}
