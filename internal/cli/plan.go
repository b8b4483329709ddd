package cli

import (
	"fmt"
	"strings"

	"seedbed"
)

// ShowPlan prints what would be made. It returns an error if the request would be refused. If err
// is not nil, it only returns err.
func (a *App) ShowPlan(p seedbed.Plan, err error) error {
	return a.ShowPlanned(err, p, append([][2]string{
		{"name", p.Name}, {"profile", p.Profile}, {"image", p.Image}, {"node", p.Node},
		{"vcpus", Number(p.VCPUs)}, {"memory", Size(p.Memory)},
	}, PlanPairs(p)...), p.Name, p.Problems)
}

// ShowPlanned is ShowPairs for a plan, which is refused if it has problems.
func (a *App) ShowPlanned(err error, plan any, pairs [][2]string, name string, problems []string) error {
	err = a.ShowPairs(err, plan, pairs)
	if err == nil && len(problems) > 0 {
		err = seedbed.Errorf(seedbed.ErrConflict, "%s would be refused: %s", name, strings.Join(problems, "; "))
	}
	return err
}

// InGroups returns the security groups of a NIC as the end of its line, unless it is in none but "open".
func InGroups(n seedbed.NIC) string {
	return When(len(n.Groups) > 0, ", in "+strings.Join(n.Groups, ", "))
}

// PlanPairs returns what a plan would make, and how.
func PlanPairs(p seedbed.Plan) [][2]string {
	var nics, volumes, nodes []string
	for _, n := range p.NICs {
		var words []string
		if n.Addr.IsValid() {
			words = append(words, n.Addr.String())
		}
		if n.MAC != (seedbed.MAC{}) {
			words = append(words, n.MAC.String())
		}
		text := strings.Join(append(words, "on "+n.Network), " ") + InGroups(n)
		for _, also := range n.Secondary {
			text += ", also " + also.String()
		}
		nics = append(nics, text)
	}
	for _, v := range p.Volumes {
		from := "blank"
		if v.Image != "" {
			from = "from " + v.Image
		}
		volumes = append(volumes, fmt.Sprintf("%s in %s, %s", v.Size, v.Pool, from))
	}
	for _, n := range p.Placement {
		switch {
		case n.Refused != "":
			nodes = append(nodes, n.Node+": "+n.Refused)
		case n.Chosen:
			nodes = append(nodes, strings.TrimSuffix(n.Node+" (chosen): "+n.Reason, ": "))
		default:
			nodes = append(nodes, strings.TrimSuffix(n.Node+": "+n.Reason, ": "))
		}
	}
	return [][2]string{
		{"nics", strings.Join(nics, "\n")}, {"volumes", strings.Join(volumes, "\n")}, {"placement", strings.Join(nodes, "\n")},
		{"ready", string(p.Ready)}, {"script", p.Script}, {"stages", strings.Join(p.Stages, " ")}, {"notes", strings.Join(p.Notes, "\n")},
	}
}
