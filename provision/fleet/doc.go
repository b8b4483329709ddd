// Package fleet reaches the workers of an installation's nodes. Client is one worker, over a unix
// socket or TLS. Fleet is all of them, as the database lists them. It also answers queries about
// several nodes, such as the trash of a pool that they share.
package fleet
