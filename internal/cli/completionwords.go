package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/mtls"
)

// flagWords returns the words that flags accept. The key is the flag or, where commands differ, the
// command and the flag.
func flagWords() map[string][]string {
	return map[string][]string{
		"on-failure": {string(seedbed.FailRollback), string(seedbed.FailKeep), string(seedbed.FailRetry)},
		"priority":   {"low", "normal", "high"},
		"firmware":   {string(seedbed.FirmwareBIOS), string(seedbed.FirmwareUEFI), string(seedbed.FirmwareSecure)},
		"datasource": {"ec2", "openstack", "nocloud", "none"},
		"ready":      {string(seedbed.ReadyStarted), string(seedbed.ReadyMetadata), string(seedbed.ReadyReport)},
		"scheme":     Each(seedbed.Schemes(), func(s seedbed.Scheme) string { return string(s) }),
		"code":       {"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"},

		"endpoint deliveries state": {"pending", "sent", "dead", "skipped"},
		"metadata log kind":         {"lease", "access", "user-data", "report", "password"},

		"vm list state":      Each(seedbed.InstanceStates(), func(s seedbed.InstanceState) string { return string(s) }),
		"job list state":     Each(seedbed.JobStates(), func(s seedbed.JobState) string { return string(s) }),
		"job list kind":      Each(seedbed.JobKinds(), func(k seedbed.JobKind) string { return string(k) }),
		"cluster issue role": Each(mtls.Roles(), func(r mtls.Role) string { return string(r) }),
	}
}

// listWords returns the words of flags that accept a comma-separated list.
func listWords() map[string][]string {
	return map[string][]string{"action": seedbed.Actions(), "event": seedbed.EventTypes(), "sign": seedbed.SignVersions()}
}

// ofList completes the last word of a list with the words that the list does not have yet.
func ofList(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndexByte(begun, ',')+1]
		said := strings.Split(before, ",")
		var all []cobra.Completion
		for _, w := range words {
			if strings.HasPrefix(w, begun[len(before):]) && !slices.Contains(said, w) {
				all = append(all, before+w)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWords completes the flags that accept fixed words, and those that name a previous job. A
// flag with a completion of its own keeps it.
func (a *App) completeWords(root *cobra.Command) {
	if !a.completes {
		return
	}
	single, listed := flagWords(), listWords()
	for _, c := range CommandsOf(root) {
		path := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
		for key, words := range single {
			command, flag := "", key
			if at := strings.LastIndexByte(key, ' '); at >= 0 {
				command, flag = key[:at], key[at+1:]
			}
			if command == "" || command == path {
				a.CompleteFlag(c, flag, fixed(words))
			}
		}
		for flag, words := range listed {
			if f := c.Flags().Lookup(flag); f != nil && f.Value.Type() == "stringSlice" {
				a.CompleteFlag(c, flag, ofList(words))
			}
		}
		if c.Flags().Lookup("on-failure") != nil {
			a.CompleteFlag(c, "after", a.FlagCompletion(jobs))
		}
	}
}
