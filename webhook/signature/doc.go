// Package signature implements the schemes by which senders of webhooks prove who they are. A
// [Scheme] reads what the headers of a delivery claim and checks that claim against a key.
// [Headers], [Sign] and the functions for secrets are what a sender needs. The package does not
// keep state and does not depend on a server.
//
// The package does not use the official verifiers, because the official Go library of Standard
// Webhooks accepts forgeries made with an empty key.
//
// Sources: Standard Webhooks 1.0.0
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md),
// and the documentation of GitHub, GitLab, Stripe, Slack and Prometheus' Alertmanager.
package signature
