//go:build integration

package webhook_test

import (
	"testing"

	"seedbed/internal/testdb"
)

// Every test of this package that has a store passes on PostgreSQL too.
func TestOnPostgres(t *testing.T) { testdb.OnPostgres(t, "^Test") }
