package intake

import (
	"errors"
	"testing"

	"seedbed"
)

func textOf(s string) *seedbed.ParamText { t := seedbed.ParamText(s); return &t }

// FuzzFields checks that no expressions of a profile break the parser, and that fields without a
// cycle are evaluated or refused.
func FuzzFields(f *testing.F) {
	f.Add("$(param.n * 2)", "${profile.vcpus}GiB", "$(system.memory / 2)")
	f.Add("1", "$(profile.disk)", "$(profile.memory)")
	f.Add("${vm.name}", "$(1024 * ${param.n})MiB", "${\"a\" + 'b'}$${x}")
	f.Fuzz(func(t *testing.T, byDefault, memory, image string) {
		declared := []seedbed.Param{{Name: "n", Type: seedbed.ParamInt, Default: textOf(byDefault)}, {Name: "s", Type: seedbed.ParamString}}
		fields, err := newFields(declared, map[string]string{"memory": memory, "disk": memory, "image": image, "vcpus": byDefault})
		if err == nil {
			err = fields.cycle()
		}
		if err == nil {
			err = fields.known(seedbed.Profile{Name: "p"}, "web1", tailored{})
		}
		if err == nil {
			fields.learn(seedbed.Parts{System: &seedbed.SystemTemplate{Name: "s", VCPUs: 2, Memory: seedbed.GiB}})
			for name := range fields.types {
				if _, _, err = fields.value(name); err != nil {
					break
				}
			}
		}
		if e := (*seedbed.Error)(nil); err != nil && !errors.As(err, &e) {
			t.Fatalf("%q, %q, %q: %v", byDefault, memory, image, err)
		}
	})
}
