package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"

	"seedbed"
)

// formats are the values of --format. Both JSON formats are indented; PVC's client has both names.
var formats = []string{"pretty", "json", "json-pretty", "raw"}

// expectedFormats lists the values of --format for messages.
const expectedFormats = "expected pretty, json, json-pretty or raw"

// JSON reports whether the output is the API's JSON.
func (a *App) JSON() bool { return a.format == "json" || a.format == "json-pretty" }

// raw reports whether a list prints only its names, one per line. Other output is not affected.
func (a *App) raw() bool { return a.format == "raw" }

// printNames prints the column that names a table's rows. It is the first one, except in histories,
// which begin with a time.
func (a *App) printNames(head []string, rows [][]string) {
	column := max(0, slices.IndexFunc(head, func(h string) bool { return h == "name" || h == "id" || h == "job" }))
	for _, row := range rows {
		fmt.Fprintln(a.Out, OneLine(row[column]))
	}
}

// PrintList prints a list in the requested format.
func PrintList[T any](a *App, things []T, none string, head []string, row func(T) []string) error {
	if a.JSON() {
		if things == nil {
			things = []T{}
		}
		return a.PrintJSON(things)
	}
	rows := Each(things, row)
	if a.raw() {
		a.printNames(head, rows)
		return nil
	}
	a.PrintTable(head, rows, none)
	return nil
}

// ShowTable prints v as JSON, or rows under their headings. If there are no rows, it prints none.
func (a *App) ShowTable(v any, head []string, rows [][]string, none string) error {
	if a.JSON() {
		return a.PrintJSON(v)
	}
	a.PrintTable(head, rows, none)
	return nil
}

// PrintJSON prints v as indented JSON.
func (a *App) PrintJSON(v any) error { return a.printJSON(v, "  ") }

// PrintJSONLine prints v as JSON on one line.
func (a *App) PrintJSONLine(v any) error { return a.printJSON(v, "") }

// printJSON prints v. Characters that could control a terminal are escaped, because the text may come
// from a guest: the encoder leaves those above ASCII as they are.
func (a *App) printJSON(v any, indent string) error {
	options := []json.Options{jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false),
		json.WithMarshalers(json.JoinMarshalers(json.MarshalToFunc(sizeInBytes), json.MarshalToFunc(jobInBytes)))}
	if indent != "" {
		options = append(options, jsontext.WithIndent(indent))
	}
	text, err := json.Marshal(v, options...)
	if err != nil {
		return err
	}
	safe := make([]byte, 0, len(text)+1)
	for _, r := range string(text) + "\n" {
		if r == '\n' || unicode.IsPrint(r) {
			safe = utf8.AppendRune(safe, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			safe = fmt.Appendf(safe, `\u%04x`, unit)
		}
	}
	_, err = a.Out.Write(safe)
	return err
}

// sizeInBytes writes a size as a number, with which a program can compute.
func sizeInBytes(e *jsontext.Encoder, b seedbed.Bytes) error {
	return e.WriteToken(jsontext.Int(int64(b)))
}

// jobInBytes writes a job with numbers for the sizes in its input, of which only a resize has some.
func jobInBytes(e *jsontext.Encoder, j seedbed.Job) error {
	type asIs seedbed.Job // for which this function is not called again
	var spec seedbed.ResizeSpec
	if j.Kind != seedbed.JobResize || json.Unmarshal(j.Spec, &spec, e.Options()) != nil {
		return json.MarshalEncode(e, asIs(j))
	}
	var err error
	if j.Spec, err = json.Marshal(spec, e.Options()); err != nil {
		return err
	}
	return json.MarshalEncode(e, asIs(j))
}

// Say prints a line for people. It prints nothing in quiet mode or with JSON.
func (a *App) Say(format string, args ...any) {
	if !a.Flags.Quiet && !a.JSON() {
		fmt.Fprintf(a.Out, format+"\n", args...)
	}
}

// colour reports whether the output may have colours (no-color.org).
func (a *App) colour() bool {
	return a.Terminal && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

func (a *App) paint(c text.Color, s string) string {
	if !a.colour() {
		return s
	}
	return c.EscapeSeq() + s + text.Reset.EscapeSeq()
}

// PrintTable prints rows under their headings. If there are no rows, it prints none.
func (a *App) PrintTable(head []string, rows [][]string, none string) {
	if len(rows) == 0 {
		a.Say("%s", none)
		return
	}
	t := a.table()
	cells := make(table.Row, len(head))
	for i, h := range head {
		cells[i] = a.paint(text.Bold, strings.ToUpper(h))
	}
	t.AppendRow(cells)
	for _, row := range rows {
		t.AppendRow(a.cells(row))
	}
	fmt.Fprintln(a.Out, t.Render())
}

// PrintPairs prints the properties of one object, one per line. Properties without a value are left
// out.
func (a *App) PrintPairs(pairs [][2]string) {
	t := a.table()
	for _, p := range pairs {
		if p[1] != "" {
			t.AppendRow(table.Row{a.paint(text.Bold, p[0]), a.cells(p[1:])[0]})
		}
	}
	fmt.Fprintln(a.Out, t.Render())
}

func (a *App) table() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.Style{Box: table.BoxStyle{PaddingRight: "  "}})
	t.SuppressTrailingSpaces()
	return t
}

var stateColours = map[string]text.Color{
	"running": text.FgGreen, "active": text.FgGreen, "succeeded": text.FgGreen, "done": text.FgGreen, "ok": text.FgGreen,
	"failed": text.FgRed, "rollback_incomplete": text.FgRed, "rolled_back": text.FgRed, "gone": text.FgRed,
	"orphans": text.FgRed, "problem": text.FgRed, "error": text.FgRed,
	"provisioning": text.FgYellow, "importing": text.FgYellow, "removing": text.FgYellow, "queued": text.FgYellow,
	"undoing": text.FgYellow, "note": text.FgYellow, "warn": text.FgYellow,
}

func (a *App) cells(row []string) table.Row {
	cells := make(table.Row, len(row))
	for i, s := range row {
		s = Printable(s)
		if c, ok := stateColours[s]; ok {
			s = a.paint(c, s)
		}
		cells[i] = s
	}
	return cells
}

// Printable replaces characters that could control a terminal, because the text may come from a
// guest. Line ends and tabs stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// Ago returns how long ago a time was.
func (a *App) Ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := a.Now().Sub(t)
	if d < -time.Second {
		return "in " + Span(-d)
	}
	return Span(max(0, d)) + " ago"
}

// Moment returns a time in full, and how long ago it was.
func (a *App) Moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime) + " (" + a.Ago(t) + ")"
}

// Span returns a duration in its two largest units.
func Span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// NewSafeWriter returns a writer to w that keeps the text of guests from controlling the terminal.
func NewSafeWriter(w io.Writer) io.Writer { return safeWriter{w} }

// safeWriter replaces the characters with which a guest could control the terminal.
type safeWriter struct{ w io.Writer }

func (s safeWriter) Write(b []byte) (int, error) {
	text := bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	if _, err := fmt.Fprint(s.w, Printable(string(text))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// OrElse joins list, or returns empty if it has no elements.
func OrElse(list []string, empty string) string {
	if len(list) == 0 {
		return empty
	}
	return strings.Join(list, ", ")
}

// Stacked returns a table's row that begins with first and ends with the columns of several rows,
// each on a line of its own.
func Stacked(first []string, columns int, rows [][]string) []string {
	cells := make([]string, columns)
	for i := range cells {
		cells[i] = strings.Join(Each(rows, func(row []string) string { return row[i] }), "\n")
	}
	return append(first, cells...)
}
