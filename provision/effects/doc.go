// Package effects is the protocol between seedbedd, which decides, and seedbed-worker, which
// changes storage and hypervisor. Each effect is declared once, as a typed value with its name,
// arguments and result: the client calls its Do or Ask, the server its Handle. What an effect does,
// and its errors, are documented at the interface in package worker whose driver carries it out.
//
// The wire is HTTP and JSON over a unix socket, or over TLS between hosts. POST /v1/<effect> with a
// Request returns NDJSON: lines of progress, events or output, a blank line once a second while
// nothing happens, and at the end one line with the result or the error. POST /v1/cancel ends a
// running call or, without its ID, all calls of a job, whose earlier epochs are refused from then
// on. A call also ends when its time is over, when its client disconnects, or when a call of a
// higher epoch comes for the same job.
//
// A Channel is a connection in both directions instead, such as a session at a console.
//
// Names and JSON must not change: a worker may be older or newer than its seedbedd.
package effects
