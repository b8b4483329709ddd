// Package provision turns accepted requests into instances and images. Intake checks and records
// requests, Engine runs the jobs stage by stage with durable undo and follows the domains, and
// Cleaner and Cron remove what no longer has an owner.
//
// A job belongs to one holder at a time. The holder claims it under a lease with an epoch, and
// every write carries that epoch. The intent of a stage is committed before its first effect, and
// its end together with the intent of the next. Every stage and every undo may run twice: effects
// look first, and adopt only what carries the job's or the instance's tag.
package provision
