package cli

import (
	"testing"

	"seedbed"
	"seedbed/api/client"
)

func FuzzReadPVC(f *testing.F) {
	f.Add(`{"local":{"cfgfile":"/etc/pvc/pvc.conf"},"lab":{"host":"pvc1","port":7370,"scheme":"http","api_key":"k"}}`)
	f.Add(`{"a":{"host":"::1","port":"7371"},"b/c":{"host":"x"},"d":{"host":"x","port":[1]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		found, _, err := readPVC("fuzz", []byte(text))
		if err != nil {
			return
		}
		for name, c := range found {
			if seedbed.CheckName("connection", name) != nil || c.URL == "" || c.Socket != "" {
				t.Errorf("%q gives %q: %+v", text, name, c)
			}
			_, _ = client.New(client.Options{URL: c.URL}) // it may be refused, and must not panic
		}
	})
}
