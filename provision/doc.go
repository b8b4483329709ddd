// Package provision turns accepted requests into instances and images: it checks
// and records what is asked for (Intake), runs the jobs stage by stage with
// durable undo (Engine), follows the domains, and takes back what has no owner
// any more (Cleaner, Cron).
//
// A job belongs to one holder at a time: it is claimed under a lease with an
// epoch, and every write carries that epoch. The intent of a stage is committed
// before its first effect, its end together with the intent of the next. Every
// stage and every undo may run twice: effects look first, and adopt only what
// carries the job's or the instance's tag.
package provision
