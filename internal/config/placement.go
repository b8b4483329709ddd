package config

import (
	"fmt"
	"strconv"

	"seedbed"
)

// Placement configures how a node is chosen for an instance.
type Placement struct {
	// Selector is for instances whose system template names no selector.
	Selector string `yaml:"selector"`
	// MemoryOvercommit and VCPUOvercommit bound the memory and the vCPUs of a node's instances, as
	// multiples of the node's memory and CPUs.
	MemoryOvercommit Overcommit `yaml:"memory_overcommit"`
	VCPUOvercommit   Overcommit `yaml:"vcpu_overcommit"`
	// TolerateFailures is how many nodes may be lost at a time without that memory lacks for the instances that are started elsewhere.
	TolerateFailures int `yaml:"tolerate_failures"`
}

// Overcommit is a multiple of what a node has, or Unlimited. Zero is an earlier release's way to
// write Unlimited.
type Overcommit float64

// Unlimited is the Overcommit without a bound.
const Unlimited Overcommit = -1

const unlimitedText = "unlimited"

// Bound returns the multiple, or 0 if there is no bound.
func (o Overcommit) Bound() float64 { return max(0, float64(o)) }

// UnmarshalText implements encoding.TextUnmarshaler: a number, or "unlimited".
func (o *Overcommit) UnmarshalText(text []byte) error {
	if string(text) == unlimitedText {
		*o = Unlimited
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || v != 0 && !(v >= leastOvercommit && v <= mostOvercommit) {
		return fmt.Errorf("%q is not a limit: expected %s", text, overcommitValues)
	}
	*o = Overcommit(v)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (o Overcommit) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// String returns the value as it is written in the configuration.
func (o Overcommit) String() string {
	if o == Unlimited {
		return unlimitedText
	}
	return strconv.FormatFloat(float64(o), 'g', -1, 64)
}

const (
	leastOvercommit = 0.1
	// mostOvercommit is more than any node can sustain.
	mostOvercommit   = 1000
	overcommitValues = "unlimited, or 0.1 to 1000"
	mostFailures     = 100
)

func (k *checker) placement(p Placement) {
	k.oneOf("placement.selector", p.Selector, seedbed.NodeSelectors()...)
	k.need(p.TolerateFailures >= 0 && p.TolerateFailures <= mostFailures, "placement.tolerate_failures", p.TolerateFailures,
		fmt.Sprintf("0 to %d", mostFailures))
}

// Warnings returns what is accepted in the configuration, but should be written in another way.
func (c Config) Warnings() (all []string) {
	for _, o := range []struct {
		key   string
		value Overcommit
	}{{"memory_overcommit", c.Placement.MemoryOvercommit}, {"vcpu_overcommit", c.Placement.VCPUOvercommit}} {
		if o.value == 0 {
			all = append(all, fmt.Sprintf("placement.%s: 0 is read as %s: write that", o.key, unlimitedText))
		}
	}
	return all
}
