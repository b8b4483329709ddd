//go:build integration

package provision

import (
	"testing"

	"seedbed/internal/testdb"
)

// TestOnPostgres runs some of the tests of this package on PostgreSQL, too. What the store does there is
// shown by its own contract.
func TestOnPostgres(t *testing.T) { testdb.OnPostgres(t, 8) }
