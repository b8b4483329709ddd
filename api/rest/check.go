package rest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"
)

// These bounds of requests are in addition to those of package seedbed.
const (
	minDisk    = seedbed.MiB
	maxSSHKeys = 100
	maxPath    = 4096
)

func checkImage(req wire.ImageRequest) error {
	if err := seedbed.CheckQualifiedName("image", req.Name); err != nil {
		return err
	}
	if req.From != "" {
		if req.Path+req.SHA256+req.Format+req.Node != "" {
			return server.Invalid("from: path, sha256, format and node are those of a file: expected none with a volume")
		}
		return nil
	}
	if req.Generalise {
		return server.Invalid("generalise: only an image of a volume is generalised: expected from, or false")
	}
	if err := seedbed.CheckName("pool", req.Pool); err != nil {
		return err
	}
	if len(req.Path) > maxPath || !path.IsAbs(req.Path) || strings.ContainsFunc(req.Path, control) {
		return server.Invalid("path %q: expected the absolute path of an image file on the worker's host", seedbed.Clip(req.Path))
	}
	if req.SHA256 != "" && !server.DigestForm.MatchString(req.SHA256) {
		return server.Invalid("sha256 %q: expected 64 lower-case hexadecimal digits", seedbed.Clip(req.SHA256))
	}
	return nil
}

// checkProfile sets the defaults of p, and returns ErrInvalid for a profile that no node could run.
func (r *router) checkProfile(ctx context.Context, p *seedbed.Profile) (err error) {
	if p.Ready, err = seedbed.ParseReady(string(p.Ready)); err != nil {
		return err
	}
	if p.Datasource, err = seedbed.ParseDatasource(string(p.Datasource)); err != nil {
		return err
	}
	if p.Follow, err = seedbed.ParseFollow(string(p.Follow), seedbed.FollowPinned); err != nil {
		return err
	}
	if err := cmp.Or(seedbed.CheckParams(p.Params), seedbed.CheckGroupNames(p.SecurityGroups)); err != nil {
		return err
	}
	for i := range p.NICs {
		p.NICs[i].Network = cmp.Or(p.NICs[i].Network, r.DefaultNetwork)
	}
	if p.FirstNetwork() == "" && p.NetworkTemplate == "" && p.OVA == "" &&
		p.Expressions["network"] == "" && p.Expressions["network_template"] == "" {
		p.Network = r.DefaultNetwork
	}
	if len(p.UserData) == 0 {
		p.UserData = nil // the guest must get 404, not an empty document
		if p.Script != "" {
			p.UserData = []byte{} // an empty document, as guests of PVC expect
		}
	}
	if len(p.VendorData) == 0 {
		p.VendorData = nil
	}
	return r.refuseProfile(ctx, *p)
}

func (r *router) refuseProfile(ctx context.Context, p seedbed.Profile) error {
	err := cmp.Or(seedbed.CheckQualifiedName("profile", p.Name), p.CheckNICs())
	for _, n := range []struct {
		kind     seedbed.PublishedKind
		name     string
		optional bool
	}{
		{seedbed.PublishedImage, p.Image, p.Storage+p.OVA != "" || p.Expressions["image"]+p.Expressions["storage_template"] != ""},
		{seedbed.PublishedNetwork, p.Network, true},
		{seedbed.PublishedSystemTemplate, p.System, true}, {seedbed.PublishedNetworkTemplate, p.NetworkTemplate, true},
		{seedbed.PublishedStorageTemplate, p.Storage, true}, {seedbed.PublishedUserData, p.Document, true},
		{seedbed.PublishedScript, p.Script, true}, {seedbed.PublishedOVA, p.OVA, true},
	} {
		if n.name == "" && n.optional || err != nil {
			continue
		}
		_, err = seedbed.Meant(n.kind, seedbed.DefaultProject, n.name)
	}
	for _, n := range p.NICs {
		if err == nil {
			_, err = seedbed.Meant(seedbed.PublishedNetwork, seedbed.DefaultProject, n.Network)
		}
	}
	if err != nil {
		return err
	}
	// A value that is not set here comes from a template or an expression.
	if p.VCPUs != 0 || p.System == "" && p.Expressions["vcpus"]+p.Expressions["system_template"] == "" {
		err = seedbed.CheckVCPUs(p.VCPUs)
	}
	if p.Memory != 0 || p.System == "" && p.Expressions["memory"]+p.Expressions["system_template"] == "" {
		err = cmp.Or(err, seedbed.CheckMemory(p.Memory))
	}
	err = cmp.Or(err, seedbed.CheckDisk("disk_size", p.DiskSize))
	switch {
	case err != nil:
		return err
	case p.DiskSize != 0 && p.DiskSize < minDisk:
		return server.Invalid("disk_size is %s: expected at least %s, or 0 for the image's own", p.DiskSize, minDisk)
	case len(p.SSHKeys) > maxSSHKeys:
		return server.Invalid("ssh_keys: %d keys: expected at most %d", len(p.SSHKeys), maxSSHKeys)
	}
	for i, key := range p.SSHKeys {
		if err := checkSSHKey(key); err != nil {
			return server.Invalid("ssh_keys[%d]: %s", i, err)
		}
	}
	return r.CheckProfile(ctx, r.Store, p)
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// maxSSHKey bounds one line; an RSA key of 16384 bits has 2.8 KiB.
const maxSSHKey = 8192

// sshKeyTypes are the key types that a current sshd accepts (sshd(8), AUTHORIZED_KEYS FILE FORMAT).
var sshKeyTypes = []string{
	"ssh-ed25519", "sk-ssh-ed25519@openssh.com",
	"ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "sk-ecdsa-sha2-nistp256@openssh.com",
	"ssh-rsa",
}

// checkSSHKey accepts one line of authorized_keys without options: a type, the base64 of a key of
// that type (RFC 4253 6.6), and an optional comment. It finds the usual mistakes: private keys,
// file names, and keys that are truncated or broken over lines.
func checkSSHKey(line string) error {
	if len(line) > maxSSHKey {
		return errors.New("longer than 8 KiB: expected one line of authorized_keys")
	}
	if strings.ContainsFunc(line, control) {
		return errors.New("holds a line break or control character: expected one line of authorized_keys")
	}
	words := strings.Fields(line)
	if len(words) < 2 || !slices.Contains(sshKeyTypes, words[0]) {
		return errors.New("expected one line of authorized_keys, such as \"ssh-ed25519 AAAA… you@host\"; its type must be one of " +
			strings.Join(sshKeyTypes, ", "))
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(words[1])
	if err != nil || len(blob) < 4 {
		return errors.New("what follows " + words[0] + " is not the base64 of a key")
	}
	n := binary.BigEndian.Uint32(blob)
	if uint64(n) > uint64(len(blob)-4) || string(blob[4:4+n]) != words[0] || len(blob) <= 4+int(n) {
		return errors.New("what follows " + words[0] + " is not a key of that type, or is cut off")
	}
	return nil
}
