// Package provision turns requests into instances and images. It puts three of the packages below it
// together: intake checks and records requests, engine runs jobs, and plans says what the stages of
// each kind of job are. The tests of the whole are here.
package provision
