package webhook

import (
	"errors"
	"strings"
	"testing"

	"seedbed"
)

func TestCheckHook(t *testing.T) {
	t.Parallel()
	ok := seedbed.Hook{Name: "h", HookSettings: of(seedbed.SchemeStandard), Keys: keys(make([]byte, 32))}
	form := func(f seedbed.HookForm) func(*seedbed.Hook) {
		return func(h *seedbed.Hook) { h.Scheme, h.Form = seedbed.SchemeGeneric, &f }
	}
	for name, test := range map[string]struct {
		change func(*seedbed.Hook)
		names  string
	}{
		"unknown scheme":           {func(h *seedbed.Hook) { h.Scheme = "sha1" }, "sha1"},
		"no key":                   {func(h *seedbed.Hook) { h.Keys = nil }, "no key"},
		"none without insecure":    {func(h *seedbed.Hook) { h.Scheme, h.Keys = seedbed.SchemeNone, nil }, "insecure"},
		"none with a key":          {func(h *seedbed.Hook) { h.Scheme, h.Insecure = seedbed.SchemeNone, true }, "no keys"},
		"insecure":                 {func(h *seedbed.Hook) { h.Insecure = true }, "insecure"},
		"alertmanager, no proof":   {func(h *seedbed.Hook) { h.Scheme, h.Keys = seedbed.SchemeAlertmanager, nil }, "subjects"},
		"gitlab from anywhere":     {func(h *seedbed.Hook) { h.Scheme = seedbed.SchemeGitLab }, "cidrs"},
		"form without generic":     {func(h *seedbed.Hook) { h.Form = &seedbed.HookForm{SignatureHeader: "x"} }, "form"},
		"generic without form":     {func(h *seedbed.Hook) { h.Scheme = seedbed.SchemeGeneric }, "form"},
		"form, no header":          {form(seedbed.HookForm{}), "signature_header"},
		"form, bad header":         {form(seedbed.HookForm{SignatureHeader: "a b"}), "a b"},
		"form, algorithm":          {form(seedbed.HookForm{SignatureHeader: "x", Algorithm: "sha1"}), "sha1"},
		"form, encoding":           {form(seedbed.HookForm{SignatureHeader: "x", Encoding: "url"}), "url"},
		"form, no body":            {form(seedbed.HookForm{SignatureHeader: "x", Signed: "{timestamp}"}), "{body}"},
		"form, body first":         {form(seedbed.HookForm{SignatureHeader: "x", TimestampHeader: "t", Signed: "{body}.{timestamp}"}), "{body}"},
		"form, time not signed":    {form(seedbed.HookForm{SignatureHeader: "x", TimestampHeader: "t", Signed: "{body}"}), "{timestamp}"},
		"form, time without place": {form(seedbed.HookForm{SignatureHeader: "x", Signed: "{timestamp}.{body}"}), "timestamp_header"},
		"form, movable": {form(seedbed.HookForm{SignatureHeader: "x", TimestampHeader: "t", IDHeader: "i",
			Signed: "{id}{timestamp}.{body}"}), "moved"},
		"form, movable body": {form(seedbed.HookForm{SignatureHeader: "x", TimestampHeader: "t", Signed: "{timestamp}v{body}"}), "moved"},
		"form, unknown mark": {form(seedbed.HookForm{SignatureHeader: "x", Signed: "{secret}.{body}"}), "secret"},
		"rate":               {func(h *seedbed.Hook) { h.Rate = -1 }, "rate"},
		"concurrency":        {func(h *seedbed.Hook) { h.Concurrency = 5000 }, "concurrency"},
		"subject":            {func(h *seedbed.Hook) { h.Subjects = []string{"a b"} }, "a b"},
		"when":               {func(h *seedbed.Hook) { h.When = "body.x ==" }, "when: line 1"},
		"mapping":            {func(h *seedbed.Hook) { h.Mapping = "{'action': nobody}" }, "mapping: line 1, column 12"},
	} {
		h := ok
		test.change(&h)
		if err := CheckHook(h); !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: %v, want ErrInvalid that names %q", name, err, test.names)
		}
	}
	if err := CheckHook(ok); err != nil {
		t.Error(err)
	}
}

// What is known of common names is what a look would find, but for the one name that is an
// exception.
func TestCommonNames(t *testing.T) {
	t.Parallel()
	for name, tells := range common {
		if name != "idempotency-key" && looksSecret(name) != tells {
			t.Errorf("%s: tells %t", name, tells)
		}
	}
}
