package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"seedbed"
	"seedbed/api"
	"seedbed/internal/config"
	"seedbed/internal/httpserve"
	"seedbed/provision/intake"
	"seedbed/provision/network"
	"seedbed/provision/record"
	"seedbed/store"
	"seedbed/webhook"
	"seedbed/webhook/signature"
)

// openHooks returns the receiver of webhooks.
func openHooks(c config.Config, db *store.DB, intake *intake.Intake, renderer record.Renderer, log *slog.Logger) (*webhook.Server, error) {
	var listener *tls.Config
	if w := c.Webhook.TLS; w.Cert != "" {
		var err error
		if listener, err = httpserve.NewTLS(httpserve.Certificates{Name: "webhook.tls", Cert: w.Cert, Key: w.Key,
			ClientCA: w.ClientCA}, log); err != nil {
			return nil, err
		}
	}
	return webhook.New(webhook.Config{
		Hooks: db, History: db, Jobs: db, Intake: intake, Queue: db, MaxQueued: c.Jobs.MaxQueued, Log: log,
		APIBase: apiURL(c.API), MaxBody: c.Webhook.MaxBody,
		TrustedProxies: c.Webhook.TrustedProxies, TLS: listener, Certificates: c.Webhook.TLS.ClientCA != "", HookNow: db.HookNow,
		ProjectRates: db.ProjectRates,
		Networks: webhook.Networks{Rules: network.Rules{Resolvers: c.Network.Resolvers(), Prefixes: c.Network.ProjectPrefixes},
			Store: db, Change: change(db, renderer)},
	}), nil
}

// receiving returns the functions of the receiver that the API needs.
func receiving(s *webhook.Server) api.Receiving {
	return api.Receiving{
		Check: s.CheckHook, CheckKeys: webhook.CheckKeys, NewKey: signature.NewKey, ParseKey: signature.ParseKey,
		DryRun: s.DryRun, Redeliver: s.Redeliver,
	}
}

// declaredHooks returns the hooks of the configuration with their secrets.
func declaredHooks(c config.Webhook) ([]seedbed.Hook, error) {
	var all []seedbed.Hook
	for _, d := range c.Hooks {
		h := seedbed.Hook{Name: d.Name, HookSettings: d.Settings(), Profiles: d.Profiles, Actions: d.Actions, Tolerance: d.Tolerance}
		if h.Tolerance == 0 {
			h.Tolerance = signature.DefaultTolerance
		}
		for _, k := range d.Keys {
			text, err := secretText(k.SecretFile, h.Scheme == seedbed.SchemeStandardV1a)
			if err != nil {
				return nil, fmt.Errorf("webhook.hooks: hook %s: %w", d.Name, err)
			}
			secret, err := signature.ParseKey(h.HookSettings, text)
			if err != nil {
				return nil, fmt.Errorf("webhook.hooks: hook %s: %s: %w", d.Name, k.SecretFile, err)
			}
			h.Keys = append(h.Keys, seedbed.HookKey{ID: k.ID, Secret: secret, NotBefore: k.NotBefore, NotAfter: k.NotAfter})
		}
		if err := webhook.CheckHook(h); err != nil {
			return nil, fmt.Errorf("webhook.hooks: hook %s: %w", d.Name, err)
		}
		all = append(all, h)
	}
	return all, nil
}

// maxSecret is far larger than any secret.
const maxSecret = 16 << 10

// secretText reads a key of a hook. It refuses a file that everyone may access, unless the key is
// public.
func secretText(path string, public bool) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !public && st.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("secret_file: everyone may use %s (mode %o): run chmod 640 or 600 on it", path, st.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret))
	return string(text), err
}

// declareAgain is the interval at which failed declarations of hooks are retried. A profile that a
// hook names may exist by then.
const declareAgain = 10 * time.Second

// declareHooks writes the hooks of the configuration to the database. It retries while an object
// that they name does not exist.
func declareHooks(db *store.DB, hooks []seedbed.Hook, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		told := ""
		for {
			err := db.DeclareHooks(ctx, hooks)
			if err == nil {
				<-ctx.Done()
				return nil
			}
			if ctx.Err() != nil {
				return nil
			}
			if err.Error() != told {
				told = err.Error()
				log.Error("the hooks of the configuration are not as it declares them", "err", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(declareAgain):
			}
		}
	}
}
