package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"seedbed"
)

// NewSize returns the value of a flag that sets b.
func NewSize(b *seedbed.Bytes) pflag.Value { return sizeFlag{b} }

// sizeFlag is a pflag.Value.
type sizeFlag struct{ *seedbed.Bytes }

func (f sizeFlag) Set(s string) error { return f.UnmarshalText([]byte(s)) }

func (f sizeFlag) Type() string { return "SIZE" }

// NewDuration returns the value of a flag that sets d, which may be given in days.
func NewDuration(d *time.Duration) pflag.Value { return durationFlag{d} }

// durationFlag is a pflag.Value. Its type and text are those that pflag.FlagSet.GetDuration reads.
type durationFlag struct{ value *time.Duration }

func (f durationFlag) Set(s string) (err error) {
	*f.value, err = seedbed.ParseDuration(s)
	return err
}

func (f durationFlag) Type() string { return "duration" }

func (f durationFlag) String() string {
	if f.value == nil || *f.value == 0 { // pflag asks the zero value for its default
		return "0"
	}
	text := f.value.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// oneOf is a pflag.Value that accepts some words, regardless of case.
type oneOf struct {
	value *string
	words []string
}

func (o oneOf) String() string {
	if o.value == nil { // pflag asks the zero value for its default
		return ""
	}
	return *o.value
}

func (o oneOf) Type() string { return "WORD" }

func (o oneOf) Set(s string) error {
	for _, w := range o.words {
		if strings.EqualFold(s, w) {
			*o.value = w
			return nil
		}
	}
	return seedbed.Errorf(seedbed.ErrInvalid, "expected one of %s", strings.Join(o.words, ", "))
}

// AddChoice adds a flag that accepts some words. The flag's usage lists them.
func AddChoice(a *App, c *cobra.Command, value *string, name, short, usage string, words ...string) {
	c.Flags().VarP(oneOf{value, words}, name, short, usage+": "+strings.Join(words, ", "))
	a.CompleteFlag(c, name, fixed(words))
}

// ParseMoment parses a time in RFC 3339, or a time from now such as +2h.
func ParseMoment(flag, s string, now time.Time) (time.Time, error) {
	if after, ok := strings.CutPrefix(s, "+"); ok {
		if d, err := seedbed.ParseDuration(after); err == nil && d >= 0 {
			return now.Add(d).UTC().Truncate(time.Second), nil
		}
	} else if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), nil
	}
	return time.Time{}, Usagef("--%s %q: expected a time such as 2026-01-02T15:04:05Z, or a time from now such as +2h or +1d", flag, s)
}

// ParsePast parses a time in RFC 3339, or a duration before now such as 3h.
func ParsePast(flag, s string, now time.Time) (time.Time, error) {
	if d, err := seedbed.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, Usagef("--%s %q: expected a time such as 2026-01-31T12:00:00Z, or a duration before now such as 3h or 7d", flag, s)
	}
	return at, nil
}

// OnNode adds the flag that limits a list to one node.
func OnNode(c *cobra.Command, node *string) {
	c.Flags().StringVar(node, "node", "", "only on this `NODE`; without it, every node must answer")
}

// NotEmpty returns the texts of a repeatable flag without empty ones, so that a lone empty one means
// none.
func NotEmpty(texts []string) (any, error) {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" }), nil
}

// ParseTags parses tags given as KEY=VALUE.
func ParseTags(args []string) (map[string]string, error) {
	tags := map[string]string{}
	for _, arg := range args {
		k, v, ok := strings.Cut(arg, "=")
		if !ok || k == "" {
			return nil, Usagef("--tag %q: expected key=value", arg)
		}
		if _, twice := tags[k]; twice {
			return nil, Usagef("--tag %s is given twice", k)
		}
		tags[k] = v
	}
	return tags, nil
}

// NICFlag adds the flag --nic to a command, and returns the index that it names; nil without the flag. what is what the command does with
// the NIC, and otherwise which NICs it is about without the flag.
func NICFlag(c *cobra.Command, what, otherwise string) func() *int {
	nic := c.Flags().Int("nic", 0, what+" the NIC with the index `N` (default: "+otherwise+")")
	return func() *int {
		if !c.Flags().Changed("nic") {
			return nil
		}
		return nic
	}
}

// LowestNIC is which NIC commands are about without --nic.
const LowestNIC = "the lowest that the instance has"
