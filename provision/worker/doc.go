// Package worker is what seedbed-worker runs: Server answers the calls of package effects
// with the drivers, whose roles are the interfaces in driver.go and its neighbours, and
// fence keeps the calls of a job's earlier epochs out.
package worker
