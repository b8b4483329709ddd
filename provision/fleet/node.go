package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
)

// each asks the workers of all given nodes at the same time and returns the answers in the order of
// the nodes. If one does not answer, it returns an error with the reasons of each that did not.
func each[T any](ctx context.Context, f *Fleet, nodes []seedbed.Node, ask func(context.Context, effects.Worker) (T, error)) ([]T, error) {
	answers, errs := make([]T, len(nodes)), make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, f.every.ask)
			defer cancel()
			var err error
			if answers[i], err = ask(ctx, f.Of(n.Name)); err != nil {
				errs[i] = onNode(n.Name, err)
			}
		})
	}
	group.Wait()
	var all error
	for _, err := range errs {
		if all != nil && err != nil {
			err = fmt.Errorf("%w; %w", all, err) // on one line
		}
		all = cmp.Or(err, all)
	}
	return answers, all
}

// list returns the query in the form that each takes.
func list[T any](q effects.Query[effects.None, T]) func(context.Context, effects.Worker) (T, error) {
	return func(ctx context.Context, w effects.Worker) (T, error) { return q.Ask(ctx, w, effects.None{}) }
}

// onNode adds the node to an error.
func onNode(node string, err error) error { return fmt.Errorf("node %s: %w", node, err) }

// alone adds to the error of an incomplete list how to see a part of it.
func alone(err error, node string) error {
	if err == nil || node != "" || !errors.Is(err, seedbed.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w; name a node (--node NAME, ?node=NAME) to see what that one has", err)
}

// Inventory returns everything on a node that carries Seedbed's tag: see effects.Inventory.
func (f *Fleet) Inventory(ctx context.Context, node string) (seedbed.Inventory, error) {
	return effects.Inventory.Ask(ctx, f.Of(node), effects.None{})
}

// Console returns the end of the console of a domain on that node: see effects.Console.
func (f *Fleet) Console(ctx context.Context, node string, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error) {
	return effects.Console.Ask(ctx, f.Of(node), effects.ConsoleTail{ID: id, Tail: tail})
}

// OpenConsole opens a session at the console of a domain on that node: see effects.OpenConsole.
func (f *Fleet) OpenConsole(ctx context.Context, node string, s seedbed.ConsoleSession) (*duplex.Conn, error) {
	return effects.OpenConsole.Open(ctx, f.client(node), s)
}

// OpenScreen opens a session at the screen of a domain on that node: see effects.OpenScreen.
func (f *Fleet) OpenScreen(ctx context.Context, node string, id seedbed.InstanceID) (*duplex.Conn, error) {
	return effects.OpenScreen.Open(ctx, f.client(node), effects.DomainRef{ID: id})
}

// Screenshot returns what the screen of a domain on that node shows: see effects.Screenshot.
func (f *Fleet) Screenshot(ctx context.Context, node string, id seedbed.InstanceID) ([]byte, error) {
	return effects.Screenshot.Ask(ctx, f.Of(node), effects.DomainRef{ID: id})
}

// GuestExec runs a program in a guest on that node: see effects.GuestExec.
func (f *Fleet) GuestExec(ctx context.Context, node string, id seedbed.InstanceID, c seedbed.GuestCommand) (seedbed.GuestProcess, error) {
	return effects.GuestExec.Ask(ctx, f.Of(node), effects.GuestCommand{ID: id, Command: c})
}

// GuestWait waits for a program in a guest on that node: see effects.GuestWait.
func (f *Fleet) GuestWait(ctx context.Context, node string, id seedbed.InstanceID, process int64) (seedbed.GuestProcess, error) {
	return effects.GuestWait.Ask(ctx, f.Of(node), effects.GuestProcess{ID: id, Process: process})
}

// OpenGuestFile copies a file from a guest on that node or to it: see effects.OpenGuestFile.
func (f *Fleet) OpenGuestFile(ctx context.Context, node string, file seedbed.GuestFile) (*duplex.Conn, error) {
	return effects.OpenGuestFile.Open(ctx, f.client(node), file)
}

// OpenVolumeFile sends a file that was made of a volume on that node: see effects.OpenVolumeFile.
func (f *Fleet) OpenVolumeFile(ctx context.Context, node string, file seedbed.VolumeFile) (*duplex.Conn, error) {
	return effects.OpenVolumeFile.Open(ctx, f.client(node), file)
}

// Probe returns the addresses that hosts outside a node answer for: see effects.ProbeAddresses.
func (f *Fleet) Probe(ctx context.Context, node string, asked []seedbed.AddressProbe) (seedbed.AddressesProbed, error) {
	ctx, cancel := context.WithTimeout(ctx, f.every.ask)
	defer cancel()
	probed, err := effects.ProbeAddresses.Ask(ctx, f.Of(node), asked)
	if err != nil {
		err = onNode(node, err)
	}
	return probed, err
}

// Usage returns what the domains of those nodes have used that exist. A node whose worker does not answer says so as its problem.
func (f *Fleet) Usage(ctx context.Context, names []string) []seedbed.NodeUsage {
	nodes := slices.DeleteFunc(f.Nodes(), func(n seedbed.Node) bool { return !slices.Contains(names, n.Name) })
	all, _ := each(ctx, f, nodes, func(ctx context.Context, w effects.Worker) (u seedbed.NodeUsage, _ error) {
		domains, err := effects.DomainUsage.Ask(ctx, w, effects.None{})
		if err != nil {
			u.Problem = err.Error()
		}
		u.Domains, u.At = domains, time.Now()
		return u, nil
	})
	for i := range all {
		all[i].Node = nodes[i].Name
	}
	return all
}

// DomainXML returns the definitions of the domains that of lists by node: see effects.DomainXML. The
// domains of a node whose worker does not answer are not in the answer.
func (f *Fleet) DomainXML(ctx context.Context, of map[string][]seedbed.InstanceID) map[seedbed.InstanceID]string {
	var nodes []seedbed.Node
	for _, n := range f.Nodes() {
		if len(of[n.Name]) > 0 {
			nodes = append(nodes, n)
		}
	}
	all := map[seedbed.InstanceID]string{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, n := range nodes {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, f.every.ask)
			defer cancel()
			for ids := range slices.Chunk(of[n.Name], effects.MaxDomainXML) {
				found, err := effects.DomainXML.Ask(ctx, f.Of(n.Name), effects.DomainRefs{IDs: ids})
				if err != nil {
					return
				}
				mu.Lock()
				maps.Copy(all, found)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all
}

// Snapshots returns the snapshots of a volume of an instance on that node, oldest first.
func (f *Fleet) Snapshots(ctx context.Context, node, pool, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	return effects.Snapshots.Ask(ctx, f.Of(node), effects.VolumeRef{Pool: pool, Name: volume, Instance: id})
}

// ImportProblem returns why the worker of that node could not import the file of spec: see
// effects.CheckImport.
func (f *Fleet) ImportProblem(ctx context.Context, node string, spec seedbed.ImageSpec) (string, error) {
	check, err := effects.CheckImport.Ask(ctx, f.Of(node), spec)
	return check.Problem, err
}

// ForeignDomains returns the domains that belong to no instance, on that node or, without one, on
// all nodes; or an error, never a part of them.
func (f *Fleet) ForeignDomains(ctx context.Context, node string) ([]seedbed.ForeignDomain, error) {
	nodes, err := f.chosen(node)
	if err != nil {
		return nil, err
	}
	answers, err := each(ctx, f, nodes, list(effects.ForeignDomains))
	if err != nil {
		return nil, alone(err, node)
	}
	return slices.Concat(answers...), nil
}

// HasDomain reports whether a node has a domain of that name, with or without Seedbed's tag.
func (f *Fleet) HasDomain(ctx context.Context, node, name string) (bool, error) {
	switch _, err := f.ForeignDomain(ctx, node, name); {
	case err == nil, errors.Is(err, seedbed.ErrConflict): // it exists and carries the tag
		return true, nil
	case errors.Is(err, seedbed.ErrNotFound):
		return false, nil
	default:
		return false, err
	}
}

// ForeignDomain returns the domain of that name, with the pools of its disks. Without a node it
// searches all nodes. Errors: ErrConflict if several have one, ErrNotFound if none has,
// ErrUnavailable if it was not found and not all nodes answered.
func (f *Fleet) ForeignDomain(ctx context.Context, node, name string) (seedbed.ForeignDomain, error) {
	nodes, err := f.chosen(node)
	if err != nil {
		return seedbed.ForeignDomain{}, err
	}
	if len(nodes) == 1 {
		return effects.ForeignDomain.Ask(ctx, f.Of(nodes[0].Name), effects.DomainName{Name: name})
	}
	type answer struct {
		domain seedbed.ForeignDomain
		absent error
	}
	answers, err := each(ctx, f, nodes, func(ctx context.Context, w effects.Worker) (a answer, err error) {
		a.domain, err = effects.ForeignDomain.Ask(ctx, w, effects.DomainName{Name: name})
		if errors.Is(err, seedbed.ErrNotFound) {
			a.absent, err = err, nil
		}
		return a, err
	})
	if err != nil {
		return seedbed.ForeignDomain{}, alone(err, node)
	}
	var found []seedbed.ForeignDomain
	var on []string
	absent := error(seedbed.Errorf(seedbed.ErrNotFound, "there is no domain %q: this installation has no hypervisor", name))
	for _, a := range answers {
		if a.absent != nil {
			absent = a.absent
			continue
		}
		found, on = append(found, a.domain), append(on, a.domain.Node)
	}
	switch len(found) {
	case 0:
		return seedbed.ForeignDomain{}, absent
	case 1:
		return found[0], nil
	}
	return seedbed.ForeignDomain{}, seedbed.Errorf(seedbed.ErrConflict,
		"domain %q is on %s: choose one (--node NAME, ?node=NAME)", name, strings.Join(on, " and "))
}

// remedy returns what to do about a worker that does not answer because of problem.
func (f *Fleet) remedy(node, problem string) string {
	switch {
	case f.client(node).at == "": // there is nothing to call
		return "follow its message, and docs/how-to/cluster.md"
	case strings.Contains(problem, "is not trusted"):
		return "give both hosts certificates of the same authority: docs/how-to/cluster.md"
	case node == f.cfg.Home:
		return "start seedbed-worker on this host"
	}
	return "start seedbed-worker on " + node
}

// Health returns the checks of every worker. Their names include the node if there are several.
func (f *Fleet) Health(ctx context.Context) []seedbed.Check {
	nodes := f.Nodes()
	if len(nodes) == 0 {
		return []seedbed.Check{{Name: "worker", Detail: "there is no hypervisor",
			Hint: "add one: seedbed node add NAME --worker https://HOST:7375"}}
	}
	answers, _ := each(ctx, f, nodes, func(ctx context.Context, w effects.Worker) ([]seedbed.Check, error) {
		checks, err := effects.Health.Ask(ctx, w, effects.None{})
		if err != nil {
			return []seedbed.Check{{Name: "worker", Detail: err.Error()}}, nil
		}
		return append([]seedbed.Check{{Name: "worker", OK: true, Detail: "seedbed-worker answers"}}, checks...), nil
	})
	var all []seedbed.Check
	for i, checks := range answers {
		if !checks[0].OK {
			checks[0].Hint = f.remedy(nodes[i].Name, checks[0].Detail)
		}
		for _, c := range checks {
			if len(nodes) > 1 {
				c.Name = nodes[i].Name + ": " + c.Name
			}
			all = append(all, c)
		}
	}
	return all
}
