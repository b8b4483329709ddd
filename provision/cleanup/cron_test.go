package cleanup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
)

// cronSlots is a CronSlot in memory, shared by the crons of an installation.
type cronSlots struct {
	mu    sync.Mutex
	taken []time.Time
	asked int
}

func (s *cronSlots) CronSlot(_ context.Context, task string, slot time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if task != "mappings" || slices.ContainsFunc(s.taken, slot.Equal) {
		return false, nil
	}
	s.taken = append(s.taken, slot)
	return true, nil
}

// leads is a leadership that every member has.
type leads struct{}

func (leads) Lead(ctx context.Context, _ string, do func(context.Context) error) error {
	return do(ctx)
}

// turns is a leadership in turns: for each pair of durations it waits, and then leads.
type turns [][2]time.Duration

func (s turns) Lead(ctx context.Context, role string, do func(context.Context) error) error {
	if role != "cron" {
		return errors.New("another role")
	}
	for _, turn := range s {
		sleep.For(ctx, turn[0])
		led, cancel := context.WithTimeout(ctx, turn[1])
		err := do(led)
		cancel()
		if err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// down is a worker that does not answer.
type down struct{}

func (down) Nodes() []seedbed.Node { return []seedbed.Node{{Name: "node1"}} }

func (down) Inventory(context.Context, string) (seedbed.Inventory, error) {
	return seedbed.Inventory{}, seedbed.Errorf(seedbed.ErrUnavailable, "seedbed-worker does not answer")
}

func TestCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, nil))
		s := &cronSlots{}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for range 2 { // two processes of one installation
			cleaner := New(Config{Log: log}, nil, down{})
			c, err := NewCron("*/10 * * * *", s, leads{}, cleaner)
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if err := c.Run(ctx); err != nil {
					t.Errorf("run: %v", err)
				}
			})
		}
		time.Sleep(35 * time.Minute)
		cancel()
		group.Wait()
		start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where the bubble's clock starts
		var want []time.Time
		for i := 1; i <= 3; i++ {
			want = append(want, start.Add(time.Duration(i)*10*time.Minute))
		}
		if !slices.EqualFunc(s.taken, want, time.Time.Equal) || s.asked != 6 {
			t.Errorf("slots %v, asked %d times", s.taken, s.asked)
		}
		if n := strings.Count(logged.String(), "cleanup refused"); n != 3 ||
			!strings.Contains(logged.String(), "seedbed-worker does not answer") {
			t.Errorf("%d runs in the log:\n%s", n, logged.String())
		}
	})
}

// TestCronTurns has no leader from minute 25 to 47. Of the slots 30 and 40, the next leader makes
// up for the later one, and no slot runs twice.
func TestCronTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &cronSlots{}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for _, lead := range []turns{
			{{0, 25 * time.Minute}, {35 * time.Minute, 15 * time.Minute}}, // 0 to 25, 60 to 75
			{{47 * time.Minute, 12 * time.Minute}},                        // 47 to 59
		} {
			c, err := NewCron("*/10 * * * *", s, lead, New(Config{}, nil, down{}))
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if err := c.Run(ctx); err != nil {
					t.Errorf("run: %v", err)
				}
			})
		}
		time.Sleep(80 * time.Minute)
		cancel()
		group.Wait()
		start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		var got []time.Duration
		for _, slot := range s.taken {
			got = append(got, slot.Sub(start)/time.Minute)
		}
		if want := []time.Duration{10, 20, 40, 50, 60, 70}; !slices.Equal(got, want) {
			t.Errorf("slots at minutes %d, want %d", got, want)
		}
	})
}

func TestCronNext(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		v, err := time.Parse(time.DateTime, "2026-01-05 "+clock)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	c, err := NewCron("*/10 * * * *", &cronSlots{}, leads{}, New(Config{}, nil, down{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name            string
		done, now, want time.Time
	}{
		{"nothing missed", at("03:00:00"), at("03:05:00"), at("03:10:00")},
		{"on the slot", at("03:00:00"), at("03:10:00"), at("03:10:00")},
		{"one missed", at("03:00:00"), at("03:12:00"), at("03:10:00")},
		{"several missed", at("03:00:00"), at("04:05:00"), at("04:00:00")},
		{"missed long ago", at("03:00:00").AddDate(-5, 0, 0), at("04:05:00"), at("04:00:00")},
		{"clock set back", at("05:00:00"), at("04:05:00"), at("04:10:00")},
	} {
		if got := nextSlot(c.schedule, tt.done, tt.now); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestCronSpec(t *testing.T) {
	t.Parallel()
	cleaner := New(Config{}, nil, down{})
	for _, spec := range []string{"", "* * * *", "61 * * * *", "now and then", strings.Repeat("*", 1000)} {
		if _, err := NewCron(spec, &cronSlots{}, leads{}, cleaner); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%q: %v", seedbed.Clip(spec), err)
		}
	}
	for _, spec := range []string{"*/10 * * * *", "@hourly", "0 3 * * 1-5"} {
		c, err := NewCron(spec, &cronSlots{}, leads{}, cleaner)
		if err != nil {
			t.Errorf("%q: %v", spec, err)
			continue
		}
		if at := c.schedule.Next(time.Date(2026, 1, 5, 2, 59, 0, 0, time.UTC)); !strings.HasSuffix(at.Format(time.RFC3339), ":00Z") {
			t.Errorf("%q: next slot %s is not in UTC", spec, at)
		}
	}
}
