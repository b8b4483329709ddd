package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/sleep"
)

// Rates is what something uses each second, from two looks at its totals.
type Rates struct {
	// CPU is how many processors it uses.
	CPU float64 `json:"cpu"`
	// Memory is what the guests have, Used what they use as far as they say, and Resident what the node gives for that.
	Memory   seedbed.Bytes `json:"memory"`
	Used     seedbed.Bytes `json:"used,omitempty"`
	Resident seedbed.Bytes `json:"resident"`
	// Bytes and requests each second.
	DiskRead    seedbed.Bytes `json:"disk_read"`
	DiskWritten seedbed.Bytes `json:"disk_written"`
	Requests    float64       `json:"requests"`
	Received    seedbed.Bytes `json:"received"`
	Sent        seedbed.Bytes `json:"sent"`
}

// Plus returns the sum of two rates.
func (r Rates) Plus(s Rates) Rates {
	return Rates{r.CPU + s.CPU, r.Memory + s.Memory, r.Used + s.Used, r.Resident + s.Resident, r.DiskRead + s.DiskRead,
		r.DiskWritten + s.DiskWritten, r.Requests + s.Requests, r.Received + s.Received, r.Sent + s.Sent}
}

// InstanceRates is what an instance uses each second.
type InstanceRates struct {
	Name    string `json:"name"`
	Project string `json:"project"`
	Node    string `json:"node"`
	VCPUs   int    `json:"vcpus"`
	Rates
}

// RatesBetween returns what the instances have used each second from one look to another one. One that was started again between them
// is only in the next.
func RatesBetween(from, to wire.Usage) []InstanceRates {
	type look struct {
		at time.Time
		u  seedbed.DomainUsage
	}
	before := map[seedbed.InstanceID]look{}
	for _, n := range from.Nodes {
		for _, i := range n.Instances {
			before[i.ID] = look{n.At, i.DomainUsage}
		}
	}
	all := []InstanceRates{}
	for _, n := range to.Nodes {
		for _, i := range n.Instances {
			was, ok := before[i.ID]
			seconds := n.At.Sub(was.at).Seconds()
			if !ok || seconds <= 0 || i.CPU < was.u.CPU {
				continue
			}
			// A NIC or disk that was removed takes its total along.
			each := func(to, from seedbed.Bytes) seedbed.Bytes { return seedbed.Bytes(float64(max(to-from, 0)) / seconds) }
			all = append(all, InstanceRates{i.Name, i.Project, n.Node, i.VCPUs, Rates{
				CPU: (i.CPU - was.u.CPU).Seconds() / seconds, Memory: i.Memory, Used: i.Used, Resident: i.Resident,
				DiskRead: each(i.DiskRead, was.u.DiskRead), DiskWritten: each(i.DiskWritten, was.u.DiskWritten),
				Requests: float64(max(i.Reads+i.Writes-was.u.Reads-was.u.Writes, 0)) / seconds,
				Received: each(i.Received, was.u.Received), Sent: each(i.Sent, was.u.Sent),
			}})
		}
	}
	return all
}

// RateHead and RateCells are the columns of a table of rates.
var RateHead = []string{"cpu", "memory", "resident", "disk read", "disk written", "requests", "received", "sent"}

// RateCells returns the cells below RateHead.
func RateCells(r Rates) []string {
	rate := func(b seedbed.Bytes) string { return short(b) + "/s" }
	memory := short(r.Memory)
	if r.Used > 0 {
		memory = short(r.Used) + " of " + memory
	}
	return []string{fmt.Sprintf("%.1f%%", 100*r.CPU), memory, short(r.Resident), rate(r.DiskRead), rate(r.DiskWritten),
		fmt.Sprintf("%.0f/s", r.Requests), rate(r.Received), rate(r.Sent)}
}

// short returns a size with at most one decimal, in the largest unit of which there is one.
func short(b seedbed.Bytes) string {
	for _, u := range []struct {
		size seedbed.Bytes
		name string
	}{{seedbed.TiB, "TiB"}, {seedbed.GiB, "GiB"}, {seedbed.MiB, "MiB"}, {seedbed.KiB, "KiB"}} {
		if b >= u.size {
			return fmt.Sprintf("%.1f%s", float64(b)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%dB", b)
}

// Top is what the commands top share.
type Top struct {
	sort     string
	interval time.Duration
	once     bool
	all      bool
}

// sorts are the values of --sort, each with what comes first.
var sorts = map[string]func(a, b Rates) int{
	"cpu":     func(a, b Rates) int { return cmp.Compare(b.CPU, a.CPU) },
	"memory":  func(a, b Rates) int { return cmp.Compare(b.Resident, a.Resident) },
	"disk":    func(a, b Rates) int { return cmp.Compare(b.DiskRead+b.DiskWritten, a.DiskRead+a.DiskWritten) },
	"network": func(a, b Rates) int { return cmp.Compare(b.Received+b.Sent, a.Received+a.Sent) },
	"name":    func(Rates, Rates) int { return 0 },
}

// sortNames are the names of sorts, in the order of their columns.
var sortNames = []string{"cpu", "memory", "disk", "network", "name"}

// AddTo adds the flags.
func (t *Top) AddTo(a *App, c *cobra.Command) {
	t.sort, t.interval = sortNames[0], 2*time.Second
	f := c.Flags()
	AddChoice(a, c, &t.sort, "sort", "", "what is used most comes first, by `WHAT`", sortNames...)
	f.Var(NewDuration(&t.interval), "interval", "look again after this `DURATION`")
	f.BoolVar(&t.once, "once", false, "look twice, print once and end, as without a terminal")
	f.BoolVar(&t.all, AllProjects, false, "those of all projects, which only an admin of the installation sees")
}

// Scope returns the scope of the instances.
func (t *Top) Scope() (in seedbed.Scope) {
	if t.all {
		in = seedbed.AllProjects()
	}
	return in
}

// All reports whether instances of all projects are shown.
func (t *Top) All() bool { return t.all }

// Compare compares by --sort. It is 0 for equal ones.
func (t *Top) Compare(a, b Rates) int { return sorts[t.sort](a, b) }

// Run looks at the usage at each interval, and calls show with the rates. On a terminal, it begins again at its top each time, until the
// context ends. A node that does not answer is named on standard error.
func (t *Top) Run(ctx context.Context, a *App, api *client.Client, node string, show func([]InstanceRates) error) error {
	if t.interval < time.Second || t.interval > time.Hour {
		return Usagef("--interval %s: expected 1s to 1h", t.interval)
	}
	before, err := api.Usage(ctx, t.Scope(), node)
	if err != nil {
		return err
	}
	once := t.once || !a.Terminal || a.JSON()
	for {
		if !sleep.For(ctx, t.interval) {
			return nil // interrupted: the user has seen enough
		}
		now, err := api.Usage(ctx, t.Scope(), node)
		if err != nil {
			return err
		}
		if !once {
			fmt.Fprint(a.Out, "\x1b[H\x1b[2J")
		}
		if err := show(RatesBetween(before, now)); err != nil {
			return err
		}
		for _, n := range now.Nodes {
			if n.Problem != "" {
				fmt.Fprintf(a.Err, "seedbed: node %s: %s\n", n.Node, OneLine(n.Problem))
			}
		}
		if once {
			return nil
		}
		before = now
	}
}

// Sorted sorts the rates of instances by --sort, and then by project and name.
func (t *Top) Sorted(all []InstanceRates) []InstanceRates {
	slices.SortFunc(all, func(x, y InstanceRates) int {
		return cmp.Or(t.Compare(x.Rates, y.Rates), cmp.Compare(x.Project, y.Project), cmp.Compare(x.Name, y.Name))
	})
	return all
}
