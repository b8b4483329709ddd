package libvirt

import (
	"bytes"
	"fmt"
	"image"
	"image/png"

	"seedbed"
)

const (
	// maxPixels limits a screenshot. The largest screen of QEMU's VGA, which has 16 MiB of memory, is smaller.
	maxPixels = 16 << 20
	// maxPicture limits what is read of libvirt: the pixels of a PPM, and its header.
	maxPicture = 3*maxPixels + 1<<10
)

func tooLargePicture() error {
	return seedbed.Errorf(seedbed.ErrConflict, "the screen is too large for a screenshot: it has more than %d pixels", maxPixels)
}

// toPNG returns a picture of QEMU as a PNG. QEMU makes a PPM or, as newer versions of libvirt ask it to, a PNG.
func toPNG(picture []byte) ([]byte, error) {
	if bytes.HasPrefix(picture, []byte("\x89PNG")) {
		c, err := png.DecodeConfig(bytes.NewReader(picture))
		if err != nil {
			return nil, fmt.Errorf("read the screenshot: %w", err)
		}
		if c.Width > maxPixels/c.Height {
			return nil, tooLargePicture()
		}
		return sized(picture)
	}
	m, err := parsePPM(picture)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, m); err != nil {
		return nil, fmt.Errorf("write the screenshot: %w", err)
	}
	return sized(out.Bytes())
}

// sized returns a PNG if it is not too large to be passed on.
func sized(picture []byte) ([]byte, error) {
	if len(picture) > int(seedbed.MaxScreenshot) {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "the screenshot has %s: expected at most %s", seedbed.Bytes(len(picture)),
			seedbed.MaxScreenshot)
	}
	return picture, nil
}

// parsePPM parses a binary PPM with 8 bits for each colour, as QEMU writes it (https://netpbm.sourceforge.net/doc/ppm.html).
func parsePPM(b []byte) (*image.RGBA, error) {
	var width, height, most int
	rest := bytes.NewReader(b)
	if _, err := fmt.Fscanf(rest, "P6\n%d %d\n%d", &width, &height, &most); err != nil {
		return nil, fmt.Errorf("read the screenshot: it does not begin as a PPM: %w", err)
	}
	if blank, err := rest.ReadByte(); err != nil || blank != '\n' || most != 255 || width <= 0 || height <= 0 {
		return nil, fmt.Errorf("read the screenshot: %d by %d pixels with colours up to %d: expected colours up to 255", width, height, most)
	}
	if width > maxPixels/height {
		return nil, tooLargePicture()
	}
	pixels := b[len(b)-rest.Len():]
	if len(pixels) != 3*width*height {
		return nil, fmt.Errorf("read the screenshot: %d bytes for %d by %d pixels", len(pixels), width, height)
	}
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		copy(m.Pix[4*i:], pixels[3*i:3*i+3])
		m.Pix[4*i+3] = 0xff
	}
	return m, nil
}
