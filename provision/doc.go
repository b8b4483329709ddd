// Package provision turns accepted requests into instances and images. It puts its rooms together:
// the intake checks and records requests, the engine runs the jobs, and the plans say what the
// stages of each kind of job are.
package provision
