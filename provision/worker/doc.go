// Package worker implements seedbed-worker. Server answers the calls of package effects with the
// drivers, whose roles are the interfaces in driver.go and the files beside it. fence refuses calls
// of a job's earlier epochs.
package worker
