package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
)

func (a *App) vmRebuild() *cobra.Command {
	var (
		profile, image string
		params         paramFlags
		yes, dry       bool
		confirm        string
		served         servedFlags
		p              powerFlags
		w              waitFlags
	)
	var c *cobra.Command
	c = &cobra.Command{
		Use: "rebuild NAME", Short: "Give an instance fresh disks; its name and addresses stay", Args: cobra.ExactArgs(1),
		Long: `Give an instance fresh disks, and start it from them. Its name, ID, addresses, MACs
and tags stay. Of its own profile it takes the image and the documents as they are
now, and keeps its size, keys and metadata options; with --profile all of that is
the other profile's. By a provisioner profile the disks are those of its storage
template, without --image; where its script makes them, that is run again. The
former disks are there until the instance is ready: when anything fails before, it
runs from them again.`,
		RunE: a.do(func(ctx context.Context, args []string) error {
			given, err := params.values(a)
			if err != nil {
				return err
			}
			if err := served.params(a, c, given); err != nil {
				return err
			}
			api, err := a.client()
			if err != nil {
				return err
			}
			of := profile
			if i, err := api.Instance(ctx, args[0]); err == nil && of == "" {
				of = i.Profile
			}
			declared, err := params.declared(ctx, api, of)
			if err != nil {
				return err
			}
			if err := params.complete(a, declared, given); err != nil {
				return err
			}
			req := seedbed.Request{Action: seedbed.DoRebuild, Name: args[0], Profile: profile, Image: image, Params: given}
			if dry {
				return a.tellPlan(ctx, api, req)
			}
			if req.Confirm = confirm; !yes && confirm == "" {
				if req.Confirm, err = a.confirm(ctx, api, args[0], "rebuild"); err != nil {
					return err
				}
			}
			receipt, err := api.RebuildInstance(ctx, req, p.power())
			if err != nil {
				return err
			}
			return a.finish(ctx, api, receipt, &w)
		}),
	}
	f := c.Flags()
	f.StringVar(&profile, "profile", "", "`profile` that it is made from (default: its own)")
	f.StringVar(&image, "image", "", "`image` of its disk (default: the profile's)")
	params.add(c)
	f.StringVar(&confirm, "confirm", "", "the `name` once more, for one that is protected")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	f.BoolVar(&dry, "dry-run", false, "tell what would be made and what is in its way, and do nothing")
	served.add(c)
	p.add(c)
	w.addJob(c)
	return c
}

// tellPlan tells what a request would make; an error when it would be refused.
func (a *App) tellPlan(ctx context.Context, api *client.Client, req seedbed.Request) error {
	p, err := api.Plan(ctx, req)
	if err != nil {
		return err
	}
	return a.showPlan(p)
}

// showPlan shows what would be made; an error when it would be refused.
func (a *App) showPlan(p seedbed.Plan) (err error) {
	if a.json() {
		err = a.printJSON(p)
	} else {
		a.printPairs(append([][2]string{
			{"name", p.Name}, {"profile", p.Profile}, {"image", p.Image}, {"node", p.Node}, {"vcpus", strconv.Itoa(p.VCPUs)}, {"memory", size(p.Memory)},
		}, planPairs(p)...))
	}
	if err == nil && len(p.Problems) > 0 {
		err = fmt.Errorf("%s would be refused: %s", p.Name, strings.Join(p.Problems, "; "))
	}
	return err
}

// planPairs show what a plan would make, and how.
func planPairs(p seedbed.Plan) [][2]string {
	var nics, volumes, nodes []string
	for _, n := range p.NICs {
		var words []string
		if n.Addr.IsValid() {
			words = append(words, n.Addr.String())
		}
		if n.MAC != (seedbed.MAC{}) {
			words = append(words, n.MAC.String())
		}
		nics = append(nics, strings.Join(append(words, "on "+n.Network), " "))
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
		{"script", p.Script}, {"stages", strings.Join(p.Stages, " ")}, {"notes", strings.Join(p.Notes, "\n")},
	}
}
