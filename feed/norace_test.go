//go:build !race

package feed

// crowd is how many records TestLargeSnapshot has.
const crowd = 100_000
