package backup

import (
	"context"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"seedbed"
)

const (
	chunksDir  = "chunks/"
	backupsDir = "backups/"
	// setAside is where damaged chunks go, so that the next backup writes them again.
	setAside = "damaged/"
	// maxStored is the largest stored chunk: compression and encryption lengthen what they cannot shorten.
	maxStored = chunkSize + chunkSize/16 + 64*1024
)

// chunkSize is how much of a disk is in one chunk.
const chunkSize = int64(4 * seedbed.MiB)

// chunkName returns the name of the object with a chunk.
func chunkName(d seedbed.Digest) string {
	hex := d.String()
	return chunksDir + hex[:2] + "/" + hex
}

// codec turns chunks into what is stored. It may be used by several goroutines.
type codec struct {
	seal *seal
	out  *zstd.Encoder
	in   *zstd.Decoder
}

func newCodec(s *seal) (*codec, error) {
	// One goroutine each: the callers are several already.
	out, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers))
	if err != nil {
		return nil, err
	}
	in, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxMemory(uint64(maxIndex)))
	if err != nil {
		return nil, err
	}
	return &codec{seal: s, out: out, in: in}, nil
}

func (c *codec) close() {
	_ = c.out.Close() // it has written to nothing
	c.in.Close()
}

// encode returns the stored form of a chunk. scratch is overwritten if it is large enough.
func (c *codec) encode(plain, scratch []byte) ([]byte, error) {
	return c.seal.close(c.out.EncodeAll(plain, scratch[:0]))
}

// decode returns a chunk's content. An error that is errDamaged means that it is not what was written under that name.
func (c *codec) decode(name seedbed.Digest, stored, scratch []byte) ([]byte, error) {
	packed, err := c.seal.open(stored)
	if err != nil {
		return nil, err
	}
	var h zstd.Header
	if err := h.Decode(packed); err != nil || !h.HasFCS || h.FrameContentSize > uint64(chunkSize) {
		return nil, damaged("it does not begin as a chunk does")
	}
	plain, err := c.in.DecodeAll(packed, scratch[:0])
	if err != nil {
		return nil, damaged("%v", err)
	}
	if have := c.seal.name(plain); have != name {
		return nil, damaged("its content has the digest %s", have)
	}
	return plain, nil
}

// chunk reads a chunk, whose length must be want; negative for any.
func (p *Place) chunk(ctx context.Context, name seedbed.Digest, want int, scratch []byte) (plain []byte, stored int, err error) {
	data, err := p.store.get(ctx, chunkName(name), maxStored)
	if err != nil {
		return nil, 0, err
	}
	plain, err = p.codec.decode(name, data, scratch)
	if err == nil && want >= 0 && len(plain) != want {
		err = damaged("it has %d bytes, not %d", len(plain), want)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", chunkName(name), err)
	}
	return plain, len(data), err
}
