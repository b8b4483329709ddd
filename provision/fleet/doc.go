// Package fleet reaches the workers of an installation's hypervisors: Client is one
// worker, over a unix socket or TLS, and Fleet is all of them, as the database lists them.
// It also answers what concerns several nodes, such as the trash of a pool that they share.
package fleet
