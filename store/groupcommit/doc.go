// Package groupcommit lets writes that come at the same time share one
// transaction. What takes the time of a small write is the flush to the disk and,
// with a database server, the way there and back; a batch pays for both once.
//
// # Protocol
//
// Writes wait in a [Queue]. The first that comes while nobody commits becomes the
// leader: it takes all that wait, up to a bound, as its batch, and commits them in
// its own goroutine. Those that come meanwhile wait for the next batch, whose
// leader is the first of them. So a write that is alone is committed at once, and
// the more come at a time, the more share a transaction. There is one leader at a time.
//
// The leader calls the queue's [Commit] with its batch. In the shared attempt a
// write looks for as little as possible: the database's keys refuse what is taken
// already, and a row that somebody has locked is not waited for.
//
//   - A write that is found wrong before any of it is written is left out, with its
//     error. The others are not disturbed.
//   - A write that has to wait for a lock, or that cannot tell yet why it is refused, is set
//     Apart. Its caller then commits it alone, in its own goroutine, after
//     the batch. Alone it looks at everything first, so its error names the cause.
//   - When the database refuses the batch, nothing is written and nobody knows whose
//     fault it is. The batch is then committed in two halves, and so on, until what
//     is refused stands alone and is set Apart. One bad write among 64 costs twelve
//     transactions more.
//   - When the database cannot be used, every write of the batch gets that error.
//
// A write whose caller has given up is skipped if its batch has not begun, and does not
// disturb the others in any case: a batch does not end with one caller's context.
//
// Writes are functions that take the batch's transaction as an argument, and may run
// more than once. What they leave outside must not depend on how often they ran.
package groupcommit
