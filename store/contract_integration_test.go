//go:build integration

package store_test

import (
	"testing"

	"seedbed/store"
	"seedbed/store/storetest"
)

func TestPostgresContract(t *testing.T) { storetest.Run(t, store.FreshPostgres(t)) }

// Two control hosts that are asked at the same time for one name, MAC, address, delivery, job, cron
// slot or setting decide like a single one.
func TestPostgresTwoHosts(t *testing.T) { storetest.Races(t, store.TwoOnPostgres(t)) }
