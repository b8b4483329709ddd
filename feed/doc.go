// Package feed carries the records that guests are served from seedbedd down to the guest plane of
// a node, and events of the guests back up. It uses HTTP and JSON over a unix socket, or TLS
// between hosts.
//
//	GET  /v1/feed?node=N&since=R&generation=G&peers=P&wait=30s
//	                                                     a seedbed.FeedPage; waits for something newer than R, or peers than P
//	GET  /v1/blobs/{sha256}                              a document
//	POST /v1/applied {"node","revision"}                 the node serves everything up to revision
//	POST /v1/events  {"node","spool","events":[…]}       what guests did, at least once
//
// An error is {"kind","message"} with the names of seedbed.KindName.
//
// # Down
//
// [Client] stores the feed on disk and passes the whole state, at each change, to an [Applier]. It
// loads the disk first, so that guests are served while seedbedd is away, even after a restart. If
// that state cannot be applied, it retries until that succeeds or a newer state is applied. A
// revision is acknowledged only after it was stored and applied, and if nothing holds it back
// ([ClientConfig.Hold]); the publish stage of a job waits for that. After a change the client polls
// again at once. It pauses for up to two seconds if the server fails, or answers at once without a
// change.
//
// A node may have a hundred thousand guests. A record is therefore stored as its own bytes and a
// template that it shares with others of its profile, and is unpacked when it is read. There is no
// second copy: a [seedbed.GuestPlaneState] is a view of what is stored here. It also says what is
// new, so that a small change is cheap for the receiver.
//
// [seedbed.GuestPlaneState.InSync] is false after a start until the server was reached and
// everything that it had then is applied. From then on it stays true in this process, even while
// seedbedd is away. A new instance can only come from seedbedd and is started only after this node
// has acknowledged it, so a caller without a record is then really unknown.
//
// # Up
//
// [Spool] writes events to files and sends them until they are acknowledged. Each process has its
// own spool with a random name, in which Seq grows from 1, so (node, spool, seq) never names two
// events. Leases, user-data and reports are synced to disk. Access records are written in batches
// and are the first to be dropped when the spool is full.
package feed
