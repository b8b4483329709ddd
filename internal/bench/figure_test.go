package bench

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   []float64
		want float64
	}{
		"none": {nil, 0},
		"one":  {[]float64{3}, 3},
		"odd":  {[]float64{9, 1, 3}, 3},
		"even": {[]float64{4, 1, 2, 9}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Median(c.in); got != c.want {
				t.Errorf("median of %v is %v, want %v", c.in, got, c.want)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := Report(&out, []Figure{
		{Name: "rate_ratio", Unit: "x", Mark: AtLeast(0.85), Runs: []float64{0.9, 0.8, 0.86}, How: "ours to theirs"},
		{Name: "rss_mib", Unit: "MiB", Mark: AtMost(120), Runs: []float64{120.5}, Flaw: "2 requests failed"},
		{Name: "start_s", Unit: "s", Mark: AtMost(2)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `figure      median  unit  mark                   runs               what
rate_ratio  0.860   x     >= 0.85  met           0.900 0.800 0.860  ours to theirs
rss_mib     120.5   MiB   <= 120   missed        120.5              
start_s     0.000   s     <= 2     not measured                     

rss_mib was disturbed: 2 requests failed
rate_ratio 0.860 x  (mark >= 0.85: met)
rss_mib 120.5 MiB  (mark <= 120: missed)
start_s 0.000 s  (mark <= 2: not measured)
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
}
