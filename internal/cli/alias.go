package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// others are names of a command that people know from other tools.
type others struct {
	aliases []string // work like the name
	meant   []string // only lead to a suggestion, because they may mean something else
}

// otherNames returns the other names of commands, by their names.
func otherNames() map[string]others {
	return map[string]others{
		"add":    {nil, []string{"create", "new", "import"}},
		"create": {nil, []string{"add", "new", "launch", "run", "deploy"}},
		"list":   {[]string{"ls"}, []string{"ps"}},
		"log":    {[]string{"logs"}, []string{"tail"}},
		"logs":   {[]string{"log"}, nil},
		"reboot": {nil, []string{"restart"}},
		"remove": {[]string{"rm", "delete"}, []string{"destroy", "terminate"}},
		"set":    {nil, []string{"change", "edit", "update"}},
		"show":   {nil, []string{"describe", "get", "info", "inspect"}},
		"stop":   {nil, []string{"halt", "poweroff", "shutdown"}},
	}
}

// nameOthers gives every command below root its other names, unless a sibling has them.
func nameOthers(root *cobra.Command) {
	all := otherNames()
	for _, c := range CommandsOf(root) {
		taken := Each(c.Commands(), (*cobra.Command).Name)
		for _, sub := range c.Commands() {
			named, ok := all[sub.Name()]
			if !ok {
				continue
			}
			free := func(names []string) []string {
				return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
					return slices.Contains(taken, name) || sub.HasAlias(name)
				})
			}
			sub.Aliases = append(sub.Aliases, free(named.aliases)...)
			sub.SuggestFor = append(sub.SuggestFor, free(named.meant)...)
		}
	}
}
