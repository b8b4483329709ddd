// Package bench is what the benchmarks share: figures with their marks, the
// table that closes a run, and the measuring of other processes. Each folder
// below is one benchmark, a program that a make target runs.
//
// A benchmark compares side by side in one run: short rounds of what is
// measured and of what it is measured against take turns, so that a machine
// that is busy with something else for a while does harm to both. Each run
// gives one value, and the figure is the median of the runs. A benchmark ends
// with a table and with one line per figure, "name value unit"; it never fails
// on a figure.
package bench
