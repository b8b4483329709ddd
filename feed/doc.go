// Package feed carries what guests are served from seedbedd to the guest plane
// of a node, and what the guests did back up: HTTP and JSON over a unix socket.
//
//	GET  /v1/feed?node=N&since=R&generation=G&wait=30s   a seedbed.FeedPage; waits for something newer than R
//	GET  /v1/blobs/{sha256}                              a document
//	POST /v1/applied {"node","revision"}                 the node serves everything up to revision
//	POST /v1/events  {"node","spool","events":[…]}       what guests did, at least once
//
// An error is {"kind","message"} with the names of seedbed.KindName.
//
// # Down
//
// [Client] keeps what it was told on disk and hands it, as a whole and for each
// change, to an [Applier]. It loads the disk first, so that guests are
// answered while seedbedd is away, also after a restart; what cannot be applied
// then is tried again until it is, or until something newer is. A revision is
// acknowledged only after it was stored and applied, and when nothing holds it
// back ([ClientConfig.Hold]); the publish stage of a job waits for that.
// After something new it asks again at once; from a server that fails, or answers
// at once with nothing, it takes rests of up to two seconds.
//
// A node may have a hundred thousand guests, so a record is kept as the bytes
// that are its own and a template that it shares with others of its profile,
// is unpacked when it is asked for, and is not kept a second time: a
// [seedbed.GuestPlaneState] is a view of what is kept here. It also says what is new, so that a
// small change is cheap for the receiver.
//
// [seedbed.GuestPlaneState.InSync] is false after a start until the server has been reached and
// everything that it had then is applied. From then on it stays true in this
// process, also while seedbedd is away: a new instance can only come from
// seedbedd, and is only started once this node has acknowledged it, so who is
// not known then is a stranger indeed.
//
// # Up
//
// [Spool] writes events to files and sends them until they are acknowledged.
// Each process has a spool of its own, named at random, in which Seq grows from
// 1, so (node, spool, seq) never names two events. Leases, user-data and
// reports are synced to disk; access records are written in batches and are the
// first to go when there is too much.
package feed
