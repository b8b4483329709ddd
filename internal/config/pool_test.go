package config

import (
	"strings"
	"testing"
	"time"
)

func TestPoolTrash(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value string
		want  time.Duration
		err   string
	}{
		"none":       {"", 0, ""},
		"three days": {", trash: 72h", 72 * time.Hour, ""},
		"zero":       {", trash: 0s", 0, ""},
		"too short":  {", trash: 1s", 0, "storage.pools[0].trash"},
		"negative":   {", trash: -1h", 0, "storage.pools[0].trash"},
		"no unit":    {", trash: 72", 0, "is not a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse("test", []byte("storage: {pools: [{name: p, type: dir, path: /p"+test.value+"}]}\n"))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v; want one with %q", err, test.err)
				}
				return
			}
			if err != nil || c.Storage.Pools[0].Trash != test.want {
				t.Errorf("%+v, %v", c.Storage.Pools, err)
			}
		})
	}
}
