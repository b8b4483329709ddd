package hook

import (
	"strconv"
	"strings"

	"seedbed"
)

// environment returns the facts that a script can use without reading JSON. Values contain no NUL,
// which the kernel would take for their end.
func environment(run seedbed.HookRun) []string {
	env := []string{}
	add := func(name, value string) {
		env = append(env, "SEEDBED_"+name+"="+strings.ReplaceAll(value, "\x00", ""))
	}
	add("SCRIPT", run.Script)
	add("HOOK_ID", run.ID)
	add("JOB", string(run.Job))
	add("KIND", string(run.Kind))
	add("PROJECT", run.Project)
	add("SUBJECT", run.Subject)
	add("INSTANCE", string(run.Instance))
	add("NODE", run.Node)
	add("STAGE", run.Stage)
	add("WHEN", run.When)
	add("ATTEMPT", strconv.Itoa(run.Attempt))
	add("AGAIN", strconv.FormatBool(run.Again))
	if m := run.Machine; m != nil {
		var macs, addresses []string
		for _, n := range m.NICs {
			macs = append(macs, n.MAC.String())
			if n.Addr.IsValid() {
				addresses = append(addresses, n.Addr.String())
			}
		}
		add("PROFILE", m.Profile)
		add("MACS", strings.Join(macs, " "))
		add("ADDRESSES", strings.Join(addresses, " "))
	}
	return env
}
