package store

import (
	"context"
	"database/sql"
	"fmt"

	"seedbed"
)

// insertInstance makes the claims of a new instance, and adds it with its NICs and volumes.
func insertInstance(ctx context.Context, tx *sql.Tx, job seedbed.JobID, i seedbed.Instance) error {
	if err := take(ctx, tx, seedbed.Claim{Kind: claimName, Key: i.Name, Job: job}, string(i.ID)); err != nil {
		return err
	}
	ready, err := seedbed.ParseReady(string(i.Ready))
	if err != nil {
		return err
	}
	if err := checkImages(ctx, tx, i); err != nil {
		return err
	}
	made := micros(orNow(i.Created))
	err = exec(ctx, tx, `
		INSERT INTO instance (id, name, profile, image, node, state, vcpus, memory, ready, held, user_data, ssh_keys, report_token, revision, created, changed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 1, $14, $14)`,
		i.ID, i.Name, i.Profile, i.Image, i.Node, seedbed.InstanceProvisioning, i.VCPUs, i.Memory, ready, flag(i.Held), blob(i.UserData),
		asJSON{orEmpty(i.SSHKeys)}, i.ReportToken, made)
	if err != nil {
		return err
	}
	for _, n := range i.NICs {
		if err := insertNIC(ctx, tx, job, i.ID, n); err != nil {
			return err
		}
	}
	for _, v := range i.Volumes {
		err := exec(ctx, tx, `INSERT INTO volume (pool, name, instance, idx, size, image) VALUES ($1, $2, $3, $4, $5, $6)`,
			v.Pool, v.Name, i.ID, v.Index, v.Size, null(v.Image))
		if err != nil {
			return err
		}
	}
	return nil
}

// checkImages refuses an instance whose images cannot be cloned where it wants them.
func checkImages(ctx context.Context, tx *sql.Tx, i seedbed.Instance) error {
	for _, v := range append([]seedbed.Volume{{Image: i.Image}}, i.Volumes...) {
		if v.Image == "" {
			continue
		}
		img, err := image(ctx, tx, v.Image, seedbed.ErrInvalid)
		switch {
		case err != nil:
			return within(fmt.Sprintf("instance %q", i.Name), err)
		case img.State != seedbed.ImageActive:
			return seedbed.Errorf(seedbed.ErrInvalid, "instance %q: image %q is %s: wait for its import to end", i.Name, v.Image, img.State)
		case v.Pool != "" && v.Pool != img.Pool:
			return seedbed.Errorf(seedbed.ErrInvalid, "instance %q: image %q is in pool %q and cannot be cloned in pool %q", i.Name, v.Image, img.Pool, v.Pool)
		}
	}
	return nil
}

func insertNIC(ctx context.Context, tx *sql.Tx, job seedbed.JobID, id seedbed.InstanceID, n seedbed.NIC) error {
	if err := take(ctx, tx, seedbed.Claim{Kind: claimMAC, Key: n.MAC.String(), Job: job}, string(id)); err != nil {
		return err
	}
	network, err := lockNetwork(ctx, tx, n.Network)
	if err != nil {
		return err
	}
	addr, err := assignAddr(ctx, tx, network, n.Addr)
	if err != nil {
		return err
	}
	if err := take(ctx, tx, seedbed.Claim{Kind: claimIP, Key: ipKey(n.Network, addr.String()), Job: job}, string(id)); err != nil {
		return err
	}
	return exec(ctx, tx, `INSERT INTO nic (instance, idx, mac, network, addr) VALUES ($1, $2, $3, $4, $5)`,
		id, n.Index, n.MAC.String(), n.Network, addr.String())
}
