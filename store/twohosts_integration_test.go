//go:build integration

package store

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/store/storetest"
)

// twoHosts is two programs on one database that are called in turn.
type twoHosts struct {
	*DB
	other *DB
	asked atomic.Int64
}

func (h *twoHosts) turn() *DB {
	if h.asked.Add(1)%2 == 0 {
		return h.other
	}
	return h.DB
}

func (h *twoHosts) Accept(ctx context.Context, a seedbed.Acceptance) (seedbed.Receipt, error) {
	return h.turn().Accept(ctx, a)
}

func (h *twoHosts) ClaimJob(ctx context.Context, owner string, lease time.Duration) (*seedbed.Job, error) {
	return h.turn().ClaimJob(ctx, owner, lease)
}

func (h *twoHosts) LogEvent(ctx context.Context, ref seedbed.JobRef, e seedbed.Event) error {
	return h.turn().LogEvent(ctx, ref, e)
}

func (h *twoHosts) CronSlot(ctx context.Context, task string, at time.Time) (bool, error) {
	return h.turn().CronSlot(ctx, task, at)
}

func (h *twoHosts) SettingOnce(ctx context.Context, key string, fresh func() []byte) ([]byte, error) {
	return h.turn().SettingOnce(ctx, key, fresh)
}

// Two control hosts that are asked at the same time for one name, MAC, address, delivery, job, cron
// slot or setting decide like a single one.
func TestPostgresTwoHosts(t *testing.T) {
	s := postgresServer(t)
	storetest.Races(t, func(t *testing.T) storetest.Store {
		name := s.Database(t, s.template)
		return &twoHosts{DB: s.use(t, name), other: s.use(t, name)}
	})
}
