package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"seedbed"
)

// Webhook configures where seedbedd receives webhooks.
type Webhook struct {
	Listen  string        `yaml:"listen"`
	MaxBody seedbed.Bytes `yaml:"max_body"`
	TLS     WebhookTLS    `yaml:"tls"`
	// TrustedProxies are the networks whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// Hooks are declared hooks, which each start writes to the database.
	Hooks []Hook `yaml:"hooks"`
}

// WebhookTLS holds the PEM files of the listener. Without Cert, the listener does not use TLS.
type WebhookTLS struct {
	Cert     string `yaml:"cert"`
	Key      string `yaml:"key"`
	ClientCA string `yaml:"client_ca"` // the authority of the senders' certificates
}

// Hook declares a hook; see seedbed.Hook.
type Hook struct {
	Name        string           `yaml:"name"`
	Scheme      seedbed.Scheme   `yaml:"scheme"`
	Keys        []HookKey        `yaml:"keys"`
	Profiles    []string         `yaml:"profiles"`
	Actions     []string         `yaml:"actions"`
	Tolerance   time.Duration    `yaml:"tolerance"`
	Form        seedbed.HookForm `yaml:"form"`
	Insecure    bool             `yaml:"insecure"`
	CIDRs       []netip.Prefix   `yaml:"cidrs"`
	Subjects    []string         `yaml:"subjects"`
	Rate        float64          `yaml:"rate"`
	Concurrency int              `yaml:"concurrency"`
	MaxBody     seedbed.Bytes    `yaml:"max_body"`
	Instances   int              `yaml:"instances"`
	Creates     int              `yaml:"creates"`
	Priority    seedbed.Priority `yaml:"priority"`
	When        string           `yaml:"when"`
	Mapping     string           `yaml:"mapping"`
	KeepPayload bool             `yaml:"keep_payload"`
}

// HookKey is one key of a declared hook.
type HookKey struct {
	ID string `yaml:"id"`
	// SecretFile holds the secret in the form of the scheme.
	SecretFile string    `yaml:"secret_file"`
	NotBefore  time.Time `yaml:"not_before"`
	NotAfter   time.Time `yaml:"not_after"`
}

// Settings returns the hook's settings in package seedbed's form.
func (h Hook) Settings() seedbed.HookSettings {
	s := seedbed.HookSettings{
		Scheme: h.Scheme, Insecure: h.Insecure, CIDRs: h.CIDRs, Subjects: h.Subjects,
		Rate: h.Rate, Concurrency: h.Concurrency, MaxBody: h.MaxBody, Instances: h.Instances, Creates: h.Creates, Priority: h.Priority,
		When: h.When, Mapping: h.Mapping, KeepPayload: h.KeepPayload,
	}
	if h.Scheme == "" {
		s.Scheme = seedbed.SchemeStandard
	}
	if h.Form != (seedbed.HookForm{}) {
		s.Form = &h.Form
	}
	return s
}

func (k *checker) webhook(w Webhook) {
	k.tcp("webhook.listen", w.Listen)
	k.need(w.MaxBody >= seedbed.KiB && w.MaxBody <= 16*seedbed.MiB, "webhook.max_body", w.MaxBody, "1KiB to 16MiB")
	k.need((w.TLS.Cert == "") == (w.TLS.Key == ""), "webhook.tls.key", w.TLS.Key, "webhook.tls.cert and webhook.tls.key, or neither")
	k.need(w.TLS.ClientCA == "" || w.TLS.Cert != "", "webhook.tls.client_ca", w.TLS.ClientCA,
		"webhook.tls.cert as well: certificates are asked for by TLS")
	for _, f := range []struct{ key, path string }{{"cert", w.TLS.Cert}, {"key", w.TLS.Key}, {"client_ca", w.TLS.ClientCA}} {
		if f.path != "" {
			k.path("webhook.tls."+f.key, f.path)
		}
	}
	for i, p := range w.TrustedProxies {
		k.need(p == p.Masked(), fmt.Sprintf("webhook.trusted_proxies[%d]", i), p, "a network without host bits, such as 192.0.2.1/32")
	}
	seen := map[string]bool{}
	for i, h := range w.Hooks {
		k.hook(fmt.Sprintf("webhook.hooks[%d]", i), h, w)
		k.need(!seen[h.Name], fmt.Sprintf("webhook.hooks[%d].name", i), h.Name, "a name that no other hook has")
		seen[h.Name] = true
	}
}

// hook makes the checks that do not depend on schemes and rules. The other checks follow when the
// hook is created.
func (k *checker) hook(key string, h Hook, w Webhook) {
	k.name(key+".name", "hook", h.Name)
	if h.Scheme != "" {
		k.need(slices.Contains(seedbed.Schemes(), h.Scheme), key+".scheme", h.Scheme, fmt.Sprintf("one of %v", seedbed.Schemes()))
	}
	for i, a := range h.Actions {
		k.need(slices.Contains(seedbed.Actions(), a), fmt.Sprintf("%s.actions[%d]", key, i), a, fmt.Sprintf("one of %v", seedbed.Actions()))
	}
	if h.Tolerance != 0 {
		k.between(key+".tolerance", h.Tolerance, time.Second, day)
	}
	k.need(len(h.Subjects) == 0 || w.TLS.ClientCA != "", key+".subjects", h.Subjects,
		"webhook.tls.client_ca as well, which says whose certificates are valid")
	k.need(h.MaxBody <= w.MaxBody, key+".max_body", h.MaxBody, fmt.Sprintf("at most webhook.max_body, %s", w.MaxBody))
	for i, at := range h.Keys {
		where := fmt.Sprintf("%s.keys[%d]", key, i)
		k.name(where+".id", "key", at.ID)
		k.path(where+".secret_file", at.SecretFile)
	}
}
