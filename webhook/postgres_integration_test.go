//go:build integration

package webhook_test

import (
	"testing"

	"seedbed/internal/testdb"
)

// TestOnPostgres runs some of the tests of this package on PostgreSQL, too.
func TestOnPostgres(t *testing.T) { testdb.OnPostgres(t, 12) }
