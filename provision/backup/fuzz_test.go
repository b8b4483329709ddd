package backup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// FuzzIndex: what can be read as an index says the same when it is written again.
func FuzzIndex(f *testing.F) {
	c, err := newCodec(&seal{})
	if err != nil {
		f.Fatal(err)
	}
	defer c.close()
	for _, x := range []*index{{}, {size: 512, chunks: []seedbed.Digest{{1}}}, {size: 9 * mib, chunks: make([]seedbed.Digest, 3)}} {
		data, err := c.encodeIndex(x)
		if err != nil {
			f.Fatal(err)
		}
		plain, err := c.in.DecodeAll(data, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plain)
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		x, err := c.decodeIndex(c.out.EncodeAll(plain, nil))
		if err != nil {
			return
		}
		data, err := c.encodeIndex(x)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.decodeIndex(data)
		if diff := cmp.Diff(x, again, cmp.AllowUnexported(index{})); err != nil || diff != "" {
			t.Errorf("%v (-first +again):\n%s", err, diff)
		}
	})
}
