// Package signature is how senders of webhooks prove who they are: one [Scheme]
// for each way, which reads what the headers of a delivery claim and tells
// whether a key stands behind it, and what a sender needs to do the same:
// [Headers], [Sign] and the forms of secrets. It keeps no state and knows
// nothing of servers.
//
// The verifiers are our own: the official Go library of Standard Webhooks
// accepts forgeries made with an empty key.
//
// Sources: Standard Webhooks 1.0.0
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md),
// and the documentation of GitHub, GitLab, Stripe, Slack and Prometheus' Alertmanager.
package signature
