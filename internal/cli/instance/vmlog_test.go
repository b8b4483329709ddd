package instance

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLastLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		n    int
		want string
	}{
		{"a\nb\nc\n", 0, "a\nb\nc\n"},
		{"a\nb\nc\n", 1, "c\n"},
		{"a\nb\nc", 1, "c"},
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc\n", 3, "a\nb\nc\n"},
		{"a\nb\nc\n", 9, "a\nb\nc\n"},
		{"\n\n", 1, "\n"},
		{"", 1, ""},
	}
	for _, tt := range tests {
		if got := string(lastLines([]byte(tt.text), tt.n)); got != tt.want {
			t.Errorf("lastLines(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.want)
		}
	}
}

// TestAdded checks that the added text is found whatever the guest writes. It is the shortest text
// that can be appended to the old one so that it ends as the new one does.
func TestAdded(t *testing.T) {
	t.Parallel()
	text := rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n")), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		old, now := text.Draw(t, "old"), text.Draw(t, "now")
		want := now
		for i := range old {
			if bytes.HasPrefix(now, old[i:]) {
				want = now[len(old)-i:]
				break
			}
		}
		if got := added(old, now); !bytes.Equal(got, want) {
			t.Errorf("added(%q, %q) = %q, want %q", old, now, got, want)
		}
	})
	big := bytes.Repeat([]byte("a"), 1<<20)
	if got := added(append(big, 'b'), append(big, 'c')); len(got) != len(big)+1 {
		t.Errorf("added gave %d bytes", len(got))
	}
}

func TestFollowText(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	texts := []string{"boot\n", "boot\nlogin\n", "gin\nroot\n"}
	look := func(ctx context.Context) ([]byte, error) {
		if len(texts) == 0 {
			cancel()
			return nil, ctx.Err()
		}
		text := texts[0]
		texts = texts[1:]
		return []byte(text), nil
	}
	var out bytes.Buffer
	if err := followText(ctx, look, time.Millisecond, []byte("boot\n"), &out); err != nil {
		t.Error(err)
	}
	if got := out.String(); got != "login\nroot\n" {
		t.Errorf("followed %q", got)
	}
	gone := errors.New("gone")
	if err := followText(t.Context(), func(context.Context) ([]byte, error) { return nil, gone },
		time.Millisecond, nil, &out); !errors.Is(err, gone) {
		t.Errorf("followText: %v, want %v", err, gone)
	}
}
