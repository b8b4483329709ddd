package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"seedbed"
)

// effect is one thing that the server can be asked for.
type effect struct {
	// fenced: it changes something, so it carries a call, and runs alone in its job.
	fenced bool
	// endless: it runs until its client goes.
	endless bool
	run     func(ctx context.Context, call seedbed.Call, args json.RawMessage, out *outbox) (json.RawMessage, error)
}

// does makes an effect that changes something; reads makes one that does not.
func does[A, R any](f func(context.Context, seedbed.Call, A, *outbox) (R, error)) effect {
	return effect{fenced: true, run: typed(f)}
}

func reads[A, R any](f func(context.Context, A) (R, error)) effect {
	return effect{run: typed(func(ctx context.Context, _ seedbed.Call, args A, _ *outbox) (R, error) { return f(ctx, args) })}
}

func typed[A, R any](f func(context.Context, seedbed.Call, A, *outbox) (R, error)) func(context.Context, seedbed.Call, json.RawMessage, *outbox) (json.RawMessage, error) {
	return func(ctx context.Context, call seedbed.Call, raw json.RawMessage, out *outbox) (json.RawMessage, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, seedbed.Errorf(seedbed.ErrInvalid, "arguments of the call: %v", err)
			}
		}
		result, err := f(ctx, call, args, out)
		if err != nil {
			return nil, err
		}
		return json.Marshal(result)
	}
}

// effects is the table of everything that a client can ask for.
func (s *Server) effects() map[string]effect {
	table := map[string]effect{
		cloneVolume: does(func(ctx context.Context, c seedbed.Call, a seedbed.VolumeSpec, _ *outbox) (info seedbed.VolumeInfo, err error) {
			pool, err := s.pool(a.Pool)
			if err == nil {
				err = checkInstance(a.Instance)
			}
			if err != nil {
				return info, err
			}
			return pool.CloneVolume(ctx, c.Job, a)
		}),
		removeVolume: does(func(ctx context.Context, _ seedbed.Call, a volumeArgs, _ *outbox) (none, error) {
			pool, err := s.pool(a.Pool)
			if err == nil {
				err = checkInstance(a.Instance)
			}
			if err != nil {
				return none{}, err
			}
			return none{}, pool.RemoveVolume(ctx, a.Name, a.Instance)
		}),
		importImage: does(func(ctx context.Context, c seedbed.Call, a seedbed.ImageSpec, out *outbox) (info seedbed.ImageInfo, err error) {
			pool, err := s.pool(a.Pool)
			if err != nil {
				return info, err
			}
			return pool.ImportImage(ctx, c.Job, a, out.progress)
		}),
		removeImage: does(func(ctx context.Context, c seedbed.Call, a imageArgs, _ *outbox) (none, error) {
			pool, err := s.pool(a.Pool)
			if err != nil {
				return none{}, err
			}
			return none{}, pool.RemoveImage(ctx, cmp.Or(a.Of, c.Job), a.Name)
		}),
		defineDomain: does(func(ctx context.Context, _ seedbed.Call, a seedbed.DomainSpec, _ *outbox) (none, error) {
			if err := checkInstance(a.ID); err != nil {
				return none{}, err
			}
			if err := seedbed.CheckInstanceName(a.Name); err != nil {
				return none{}, err
			}
			return none{}, s.hypervisor.DefineDomain(ctx, a)
		}),
		startDomain:    s.onDomain(s.startUnmapped),
		shutdownDomain: s.onDomain(s.hypervisor.ShutdownDomain),
		destroyDomain:  s.onDomain(s.hypervisor.DestroyDomain),
		undefineDomain: s.onDomain(s.hypervisor.UndefineDomain),
		domainState: reads(func(ctx context.Context, a domainArgs) (seedbed.DomainInfo, error) {
			if err := checkInstance(a.ID); err != nil {
				return seedbed.DomainInfo{}, err
			}
			return s.hypervisor.DomainState(ctx, a.ID)
		}),
		console: reads(func(ctx context.Context, a consoleArgs) ([]byte, error) {
			if err := checkInstance(a.ID); err != nil {
				return nil, err
			}
			if a.Tail <= 0 || a.Tail > maxConsole {
				return nil, seedbed.Errorf(seedbed.ErrInvalid, "%d bytes of the console are asked for: want 1 to %s", a.Tail, maxConsole)
			}
			return s.hypervisor.Console(ctx, a.ID, a.Tail)
		}),
		inventory: reads(func(ctx context.Context, _ none) (seedbed.Inventory, error) { return s.inventory(ctx), nil }),
		health:    reads(func(ctx context.Context, _ none) ([]seedbed.Check, error) { return s.Health(ctx), nil }),
		report:    reads(func(ctx context.Context, _ none) (seedbed.NodeReport, error) { return s.report(ctx) }),
		watch: {endless: true, run: typed(func(ctx context.Context, _ seedbed.Call, _ none, out *outbox) (none, error) {
			return none{}, s.hypervisor.Watch(ctx, out.event)
		})},
	}
	maps.Copy(table, s.volumeEffects())
	maps.Copy(table, s.adoptEffects())
	maps.Copy(table, s.resizeEffects())
	maps.Copy(table, s.uploadEffects())
	maps.Copy(table, s.scriptEffects())
	maps.Copy(table, s.hookEffects())
	return table
}

// onDomain is an effect on one domain by its ID.
func (s *Server) onDomain(f func(context.Context, seedbed.InstanceID) error) effect {
	return does(func(ctx context.Context, _ seedbed.Call, a domainArgs, _ *outbox) (none, error) {
		if err := checkInstance(a.ID); err != nil {
			return none{}, err
		}
		return none{}, f(ctx, a.ID)
	})
}

func checkInstance(id seedbed.InstanceID) error {
	_, err := seedbed.ParseInstanceID(string(id))
	return err
}

func (s *Server) pool(name string) (Pool, error) {
	if p, ok := s.pools[name]; ok {
		return p, nil
	}
	have := strings.Join(s.poolNames(), ", ")
	if have == "" {
		have = "none"
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "pool %q is not configured on node %s: there is %s", name, s.node, have)
}

func (s *Server) poolNames() []string { return slices.Sorted(maps.Keys(s.pools)) }

// inventory asks the hypervisor and every pool. What could be had is in it; one
// that did not answer makes it incomplete.
func (s *Server) inventory(ctx context.Context) seedbed.Inventory {
	inv := seedbed.Inventory{Node: s.node}
	var problems []string
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, what+": "+err.Error())
		}
	}
	domains, err := s.hypervisor.Domains(ctx)
	note("domains", err)
	inv.Domains = domains
	if h, ok := s.hypervisor.(Network); ok {
		taken, err := h.TakenMACs(ctx)
		inv.Taken = taken
		if err != nil { // what is ours is known all the same
			s.log.Warn("look who uses which MAC address", "err", err)
		}
	}
	for _, name := range s.poolNames() {
		volumes, err := s.pools[name].Volumes(ctx)
		note("volumes of pool "+name, err)
		images, err := s.pools[name].Images(ctx)
		note("images of pool "+name, err)
		inv.Volumes, inv.Images = append(inv.Volumes, volumes...), append(inv.Images, images...)
	}
	inv.Complete, inv.Problem = len(problems) == 0, strings.Join(problems, "; ")
	return inv
}

// lowRoom is the free space below which a pool that has no check of its own is not well.
const lowRoom = 1 * seedbed.GiB

// Health is every driver's own checks, those of the hooks' scripts, the room in the pools that have none, and
// those of the configuration.
func (s *Server) Health(ctx context.Context) []seedbed.Check {
	checks := s.hypervisor.Health(ctx)
	if s.checks != nil {
		checks = append(checks, s.checks(ctx)...)
	}
	if c, ok := s.hooks.(Checker); ok {
		checks = append(checks, c.Health(ctx)...)
	}
	for _, name := range s.poolNames() {
		if c, ok := s.pools[name].(Checker); ok {
			checks = append(checks, c.Health(ctx)...)
			continue
		}
		check := seedbed.Check{Name: "pool " + name}
		switch info, err := s.pools[name].Info(ctx); {
		case err != nil:
			check.Detail = err.Error()
		default:
			check.OK = info.Free >= lowRoom
			check.Detail = fmt.Sprintf("%d MiB free of %d MiB", info.Free/seedbed.MiB, info.Size/seedbed.MiB)
		}
		if !check.OK && check.Hint == "" {
			check.Hint = "give the pool room, or remove volumes or images"
		}
		checks = append(checks, check)
	}
	return checks
}
