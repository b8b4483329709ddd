//go:build integration

package webhook_test

import (
	"math"
	"testing"

	"seedbed/internal/testdb"
)

// TestOnPostgres runs the tests of this package on PostgreSQL, too.
func TestOnPostgres(t *testing.T) { testdb.OnPostgres(t, math.MaxInt) }
