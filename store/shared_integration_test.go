//go:build integration

package store

import "testing"

func TestPostgresSharedCreates(t *testing.T) {
	testSharedCreates(t, postgresServer(t).fresh(t))
}
