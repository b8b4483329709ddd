// Package engine claims jobs and runs them stage by stage, with durable undo, and follows the
// domains. It knows no kind of job: a Planner says which stages a job has, and the functions of the
// stages act through the Task.
//
// A job belongs to one holder at a time. The holder claims it under a lease with an epoch, and
// every write carries that epoch. The intent of a stage is committed before its first effect, and
// its end together with the intent of the next. Every stage and every undo may run twice: effects
// look first, and adopt only what carries the job's or the instance's tag.
package engine
