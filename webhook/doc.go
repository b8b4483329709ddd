// Package webhook receives webhooks at POST /hooks/<name>. Each hook has one
// scheme by which its sender proves who it is, and may have rules, in CEL, that
// say what a delivery means. A request is bounded and verified over its raw
// bytes before anything of it is parsed, and is answered with a job only once
// that job is durable.
//
// How senders prove who they are is in package signature; what Seedbed itself
// sends is in package outbox.
package webhook
