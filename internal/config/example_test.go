package config

import (
	"encoding"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

var commentedKey = regexp.MustCompile(`(?m)^( *)#([a-z_]+:)`)

// TestExampleIsTheDefault checks that the example gives the defaults, both unchanged and with every
// key uncommented.
func TestExampleIsTheDefault(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"as installed": Example(),
		"uncommented":  commentedKey.ReplaceAllString(Example(), "$1$2"),
	} {
		got, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Default(), got, compare); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestExampleHasEveryStage checks that the example has the timeout of each stage. Parse would fill in
// one that the example leaves out.
func TestExampleHasEveryStage(t *testing.T) {
	t.Parallel()
	var read struct {
		Jobs struct {
			StageTimeout map[string]time.Duration `yaml:"stage_timeout"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(commentedKey.ReplaceAllString(Example(), "$1$2")), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stageTimeouts(), read.Jobs.StageTimeout); diff != "" {
		t.Errorf("stages of the example (-default +example):\n%s", diff)
	}
}

func TestExampleCommentsEveryKey(t *testing.T) {
	t.Parallel()
	keyLine := regexp.MustCompile(`^ *#?([a-z_]+):`)
	lines := strings.Split(Example(), "\n")
	commented := map[string]int{}
	for i, line := range lines {
		m := keyLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(lines[i-1]), "# ") {
			t.Errorf("line %d: %s has no comment above it", i+1, m[1])
		}
		commented[m[1]]++
	}
	want := map[string]int{}
	countKeys(reflect.TypeFor[Config](), want)
	if diff := cmp.Diff(want, commented); diff != "" {
		t.Errorf("keys of the example (-Config +example):\n%s", diff)
	}
}

// countKeys counts the keys of t, except those of lists, which are on one line.
func countKeys(t reflect.Type, n map[string]int) {
	for f := range t.Fields() {
		n[f.Tag.Get("yaml")]++
		text := reflect.PointerTo(f.Type).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
		if f.Type.Kind() == reflect.Struct && !text {
			countKeys(f.Type, n)
		}
	}
}
