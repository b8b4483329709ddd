// Package storetest is the contract suite of package store. Every database that Seedbed can use
// passes it.
package storetest

import (
	"testing"

	"seedbed/store"
)

// Run runs the contract suite. Each call of open returns a separate, empty store, which is closed
// when its test ends.
func Run(t *testing.T, open func(t *testing.T) *store.DB) {
	alone := func(t *testing.T) (*store.DB, *store.DB) { return open(t), nil }
	groups := []struct {
		name  string
		cases map[string]func(*bench)
	}{
		{"catalogue", catalogueCases}, {"network", networkCases},
		{"published", publishedCases},
		{"accept", acceptCases},
		{"race", raceCases},
		{"job", jobCases},
		{"lease", leaseCases},
		{"journal", journalCases},
		{"step", stepCases},
		{"queue", queueCases},
		{"output", outputCases},
		{"finish", finishCases},
		{"feed", feedCases},
		{"served", servedCases},
		{"guest", guestCases},
		{"cleanup", cleanupCases},
		{"orphan", orphanCases},
		{"hook", hookCases},
		{"volume", volumeCases},
		{"rebuild", rebuildCases},
		{"resize", resizeCases},
		{"token quota", tokenQuotaCases},
		{"removal", removalCases},
		{"overtaking", overtakeCases},
		{"outbox", outboxCases},
		{"access", accessCases},
		{"project", projectCases},
		{"project quota", projectQuotaCases},
		{"fair claims", fairCases},
		{"template", templateCases},
		{"change", changeCases},
		{"script", scriptCases},
		{"provisioner", provisionerCases},
		{"ova", ovaCases},
		{"listing", listingCases},
		{"takeover", catalogueTakeoverCases},
		{"native", nativeCases},
		{"node", nodeCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			runCases(t, g.cases, alone)
		})
	}
}

// Races runs the part of the contract suite about concurrent requests on two programs that share a
// database.
func Races(t *testing.T, open func(t *testing.T) (one, other *store.DB)) {
	runCases(t, raceCases, open)
}

func runCases(t *testing.T, cases map[string]func(*bench), open func(t *testing.T) (one, other *store.DB)) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := open(t)
			test(&bench{T: t, DB: one, other: other})
		})
	}
}
