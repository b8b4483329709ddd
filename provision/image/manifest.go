package image

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"regexp"
	"strings"

	"seedbed"
)

// digest is a manifest's entry for one file.
type digest struct {
	algorithm string
	sum       string // lower-case hexadecimal
}

// algorithms are those of DSP0243 7.1 and 2.0. SHA-1 detects accidents but not forgeries, and an
// unsigned manifest cannot do more anyway.
var algorithms = map[string]func() hash.Hash{"SHA1": sha1.New, "SHA256": sha256.New, "SHA384": sha512.New384, "SHA512": sha512.New}

func (d digest) hash() hash.Hash { return algorithms[d.algorithm]() }

// check compares the data that h has hashed with the manifest.
func (d digest) check(file string, h hash.Hash) error {
	if got := hex.EncodeToString(h.Sum(nil)); got != d.sum {
		return seedbed.Errorf(seedbed.ErrInvalid, "has a file %q that does not match its manifest (%s is %s, not %s): it was damaged or changed",
			seedbed.Clip(file), d.algorithm, got, d.sum)
	}
	return nil
}

const maxManifest = 1 * seedbed.MiB

// manifestLine matches lines such as "SHA256(disk1.vmdk)= 0123…".
var manifestLine = regexp.MustCompile(`^(SHA1|SHA256|SHA384|SHA512)\s*\((.+)\)\s*=\s*([0-9A-Fa-f]+)$`)

// parseManifest reads a manifest and returns the digests by file name.
func parseManifest(text []byte) (map[string]digest, error) {
	if seedbed.Bytes(len(text)) > maxManifest {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "has a manifest of more than %s", maxManifest)
	}
	all := map[string]digest{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		m := manifestLine.FindStringSubmatch(line)
		if m == nil || len(m[3]) != 2*algorithms[m[1]]().Size() {
			return nil, seedbed.Errorf(seedbed.ErrInvalid,
				"has a manifest with the line %q: expected a line such as SHA256(disk1.vmdk)= with a digest",
				seedbed.Clip(line))
		}
		d := digest{m[1], strings.ToLower(m[3])}
		if old, twice := all[m[2]]; twice && old != d {
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "has a manifest with two digests of %q", seedbed.Clip(m[2]))
		}
		all[m[2]] = d
	}
	if len(all) == 0 {
		return nil, invalid("has an empty manifest")
	}
	return all, nil
}
