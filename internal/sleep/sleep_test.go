package sleep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !For(t.Context(), time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("slept for %s, want an hour", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if For(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("slept for %s, want a minute", time.Since(began))
		}
	})
}
