package libvirt

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"seedbed"
)

func TestPictureOfScreen(t *testing.T) {
	t.Parallel()
	fromPPM, err := toPNG([]byte("P6\n2 1\n255\n\x01\x02\x03\xff\x00\x80"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := toPNG(fromPPM) // as newer versions of libvirt send it
	if err != nil || !bytes.Equal(fromPPM, again) {
		t.Fatalf("a PNG is not taken as it is: %v", err)
	}
	m, err := png.Decode(bytes.NewReader(fromPPM))
	if err != nil {
		t.Fatal(err)
	}
	for x, want := range []color.RGBA{{1, 2, 3, 255}, {255, 0, 128, 255}} {
		if got := color.RGBAModel.Convert(m.At(x, 0)); got != want {
			t.Errorf("pixel %d is %v; want %v", x, got, want)
		}
	}
	if m.Bounds().Dx() != 2 || m.Bounds().Dy() != 1 {
		t.Errorf("%v", m.Bounds())
	}
	large := fmt.Sprintf("P6\n%d 2\n255\n", maxPixels)
	if _, err := toPNG([]byte(large)); !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("too large a screen: %v", err)
	}
	for _, bad := range []string{"", "P6", "P5\n2 1\n255\n", "P6\n2 1\n65535\n\x00\x00", "P6\n2 1\n255\n\x00\x00\x00",
		"P6\n-2 -1\n255\n\x00\x00\x00\x00\x00\x00",
		"P6\n0 1\n255\n", "P6\n1 1\n255\n\x00\x00\x00\x00", "P6\n1 1\n255", "\x89PNG\r\n\x1a\n"} {
		if got, err := toPNG([]byte(bad)); err == nil {
			t.Errorf("%q: %d bytes; want an error", bad, len(got))
		}
	}
}

func FuzzPictureOfScreen(f *testing.F) {
	f.Add([]byte("P6\n2 1\n255\n\x01\x02\x03\xff\x00\x80"))
	f.Add([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := toPNG(b)
		if err == nil && !bytes.HasPrefix(got, []byte("\x89PNG")) {
			t.Errorf("%q is not a PNG", got)
		}
	})
}
