//go:build integration

package provision

import (
	"testing"

	"seedbed/internal/testdb"
)

// TestOnPostgres runs every test of this package that has a store on PostgreSQL, too.
func TestOnPostgres(t *testing.T) { testdb.OnPostgres(t, "^Test") }
