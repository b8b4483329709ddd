// Package groupcommit lets concurrent writes share one transaction. Most of the time of a small
// write is the flush to disk and, with a database server, the round trips; a batch pays for both
// once.
//
// # Protocol
//
// Writes wait in a [Queue]. The first write that arrives while no batch is being committed becomes
// the leader. It begins a transaction in its own goroutine, takes all writes that wait by then, up
// to a limit, as its batch, and commits them. Writes that arrive later wait for the next batch,
// whose leader is the first of them. So a single write is committed at once, and the more writes
// arrive at the same time, the more share a transaction. There is one leader at a time.
//
// Callers often write again as soon as their last write is committed. The next transaction begins
// meanwhile, so that these writes are in its batch. If the batch were taken before, callers would
// divide into two groups that take turns, and batches would be half as large.
//
// The leader calls the queue's [Commit]. In the shared attempt, a write checks as little as
// possible: the database's keys refuse what is taken already, and the write does not wait for a
// locked row.
//
//   - A write that turns out to be invalid before any of it is written is left out, with its error.
//     The other writes are not affected.
//   - A write that must wait for a lock, or that does not know yet why it is refused, is set Apart.
//     Its caller then commits it alone, in its own goroutine, after the batch. Alone, the write
//     checks everything first, so that its error names the cause.
//   - If the database refuses the batch, nothing is written, and it is not known which write is
//     the cause. The batch is then committed in two halves, and so on, until each refused write is
//     alone and is set Apart. One bad write among 64 costs twelve more transactions.
//   - If the database cannot be used, every write of the batch gets that error.
//
// A write whose caller has given up is skipped if its batch has not started. In any case it does
// not affect the others: a batch does not end with one caller's context.
//
// Writes are functions that take the [Batch] as an argument, and may run more than once. Their
// effects outside the transaction must not depend on how often they ran. A [Writer] is such queues
// over a database of package sqldb.
package groupcommit
