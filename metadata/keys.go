package metadata

import (
	"strconv"
	"strings"
)

// maxKeyName bounds the name under which a key is listed, in bytes.
const maxKeyName = 64

// sshKey is one key with the unique name under which it is listed.
type sshKey struct{ name, line string }

// publicKeys lists the keys in Amazon's form, "0=name", each a directory "0" with the leaf
// openssh-key.
func publicKeys(r *record) []*node {
	var nodes []*node
	for i, key := range sshKeys(r) {
		number := strconv.Itoa(i)
		n := dir(number, constant("openssh-key", key.line))
		n.line = number + "=" + key.name
		nodes = append(nodes, n)
	}
	return nodes
}

func sshKeys(r *record) []sshKey {
	var keys []sshKey
	names := map[string]bool{}
	for i, line := range keyLines(r.guest.SSHKeys) {
		name := keyName(line)
		if name == "" {
			name = "key-" + strconv.Itoa(i)
		}
		for names[name] {
			name += "-" + strconv.Itoa(i)
		}
		names[name] = true
		keys = append(keys, sshKey{name, line})
	}
	return keys
}

// keyLines returns the keys, one line each, because clients take a value with a line break for a
// list.
func keyLines(keys []string) []string {
	var lines []string
	for _, k := range keys {
		for line := range strings.FieldsFuncSeq(k, func(c rune) bool { return c == '\n' || c == '\r' }) {
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// keyName returns the key's comment with only letters, digits and "@._+-" left: a "=" breaks
// clients that split on each of them, and a final "/" makes the line a directory (cloud-init,
// sources/helpers/ec2.py; afterburn). It is empty without a comment.
func keyName(key string) string {
	comment := keyComment(key)
	if comment == "" {
		return ""
	}
	name := []byte(comment)
	for i, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("@._+-", c) >= 0:
		default:
			name[i] = '-'
		}
	}
	return string(name[:min(len(name), maxKeyName)])
}

// keyComment returns what follows the key type and the base64 key, wherever the options before them
// end (sshd(8), AUTHORIZED_KEYS FILE FORMAT).
func keyComment(key string) string {
	fields := strings.Fields(key)
	for i, f := range fields {
		if isKeyType(f) && i+2 < len(fields) && strings.HasPrefix(fields[i+1], "AAAA") {
			return strings.Join(fields[i+2:], "-")
		}
	}
	return ""
}

func isKeyType(s string) bool {
	return strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "ecdsa-sha2-") || strings.HasPrefix(s, "sk-")
}
