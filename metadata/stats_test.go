package metadata

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAnswersAreCounted by dialect, version and status.
func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA()))
	c := l.client(addrA)
	for _, r := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 200}, {"GET", "/latest/meta-data/mac", 200}, {"GET", "/2009-04-04/meta-data/mac", 200}, {"GET", "/1.0/meta-data/mac", 200},
		{"GET", "/2016-09-02/user-data", 404}, {"PUT", tokenPath, 200}, {"GET", tokenPath, 405}, {"GET", "/openstack", 200},
		{"GET", "/openstack/latest/meta_data.json", 200}, {"GET", "/openstack/2018-08-27/user_data", 404}, {"GET", "/nocloud/meta-data", 200},
		{"POST", reportPrefix + "x", 404}, {"GET", "/favicon.ico", 404}, {"GET", "/openstack/x/y", 404},
	} {
		l.want(c, r.status, r.method, r.path, ttlHeader, "60")
	}
	l.want(c, 401, "GET", "/latest/meta-data/mac", tokenHeader, "junk")
	l.want(c, 200, "GET", "/latest/meta-data/mac", tokenHeader, l.want(c, 200, "PUT", tokenPath, ttlHeader, "60").body)
	want := []AnswerCount{
		{"other", "none", 404, 2}, {"root", "none", 200, 1},
		{"ec2", "latest", 200, 2}, {"ec2", "latest", 401, 1}, {"ec2", "1.0", 200, 1}, {"ec2", "dated", 200, 1}, {"ec2", "dated", 404, 1},
		{"token", "latest", 200, 2}, {"token", "latest", 405, 1},
		{"openstack", "none", 200, 1}, {"openstack", "latest", 200, 1}, {"openstack", "dated", 404, 1},
		{"nocloud", "none", 200, 1}, {"report", "none", 404, 1},
	}
	st := l.srv.Stats()
	if diff := cmp.Diff(want, st.Answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	total, timed := int64(0), int64(0)
	for _, a := range want {
		total += a.Count
	}
	for _, n := range st.Latency.Counts {
		timed += n
	}
	if timed != total || st.Latency.Sum <= 0 || len(st.Latency.Counts) != len(st.Latency.Bounds)+1 {
		t.Errorf("latency of %d answers %+v", total, st.Latency)
	}
	if st.NoToken != 12 || st.NoTokenRejected != 0 {
		t.Errorf("%d without a token, want 12", st.NoToken)
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h histogram
	for d, want := range map[time.Duration]int{
		-1: 0, 0: 0, firstBound: 0, firstBound + 1: 1, 2 * firstBound: 1, 2*firstBound + 1: 2, 4 * firstBound: 2,
		firstBound << 15: 15, firstBound<<15 + 1: 16, time.Hour: 16,
	} {
		before := h.snapshot().Counts[want]
		h.add(d)
		s := h.snapshot()
		if s.Counts[want] != before+1 {
			t.Errorf("%v is not in %d: %v", d, want, s.Counts)
		}
		if want < len(s.Bounds) && d > s.Bounds[want] {
			t.Errorf("%v is above %v", d, s.Bounds[want])
		}
	}
}
