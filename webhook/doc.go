// Package webhook receives webhooks at POST /hooks/<name>, and those of a project other than the
// default one at POST /hooks/<project>/<name>. Each hook has one scheme by which its sender proves who
// it is, and may have rules, in CEL, that say what a delivery means. A request is bounded, and its raw
// bytes are verified, before it is parsed. It is answered with a job only once that job is durable.
//
// Package signature implements the schemes. Package outbox sends Seedbed's own webhooks.
package webhook
