// Package plans says how each kind of job is done: its stages, what they do through the workers,
// and how they are undone. There is a file for each kind, or for several that are alike.
package plans
