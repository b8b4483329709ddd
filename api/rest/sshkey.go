package rest

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

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
