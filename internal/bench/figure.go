package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Mark is what a figure shall reach.
type Mark struct {
	// Limit is compared with the figure; with AtLeast it is the least, else the most.
	Limit   float64
	AtLeast bool
}

// AtLeast is the mark of a figure that shall be large.
func AtLeast(v float64) Mark { return Mark{Limit: v, AtLeast: true} }

// AtMost is the mark of a figure that shall be small.
func AtMost(v float64) Mark { return Mark{Limit: v} }

// Met reports whether v reaches the mark.
func (m Mark) Met(v float64) bool {
	if m.AtLeast {
		return v >= m.Limit
	}
	return v <= m.Limit
}

// String is the mark as the table has it, such as ">= 0.85".
func (m Mark) String() string {
	sign := "<="
	if m.AtLeast {
		sign = ">="
	}
	return sign + " " + strconv.FormatFloat(m.Limit, 'f', -1, 64)
}

// Figure is one result.
type Figure struct {
	// Name is what the line of the figure begins with; Unit what it ends with.
	Name, Unit string
	Mark       Mark
	// Runs are the values of the single runs; the figure is their median.
	Runs []float64
	// How says what was compared, for the table.
	How string
	// Flaw is what was wrong with the measuring, such as requests that failed; empty when nothing was.
	Flaw string
}

// Value is the median of the runs.
func (f Figure) Value() float64 { return Median(f.Runs) }

// Median is the middle value, or the mean of the two in the middle. It is 0 for no values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Report writes the table of the figures, and then one line for each: name,
// value and unit, with the mark behind it.
func Report(w io.Writer, figures []Figure) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tmedian\tunit\tmark\t\truns\twhat")
	for _, f := range figures {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, number(f.Value()), f.Unit, f.Mark, f.verdict(), f.runs(), f.How)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, f := range figures {
		if f.Flaw != "" {
			fmt.Fprintf(w, "%s was disturbed: %s\n", f.Name, f.Flaw)
		}
	}
	for _, f := range figures {
		if _, err := fmt.Fprintf(w, "%s %s %s  (mark %s: %s)\n", f.Name, number(f.Value()), f.Unit, f.Mark, f.verdict()); err != nil {
			return err
		}
	}
	return nil
}

func (f Figure) verdict() string {
	switch {
	case len(f.Runs) == 0:
		return "not measured"
	case f.Mark.Met(f.Value()):
		return "met"
	}
	return "missed"
}

func (f Figure) runs() string {
	var s []string
	for _, v := range f.Runs {
		s = append(s, number(v))
	}
	return strings.Join(s, " ")
}

// number has three digits behind the point below 100, and one from there on.
func number(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
