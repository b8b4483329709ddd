package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/config"
	"seedbed/internal/sample"
	"seedbed/provision/plans"
	"seedbed/provision/worker/drivertest"
)

// patientLease is a lease that does not end on a busy computer.
const patientLease = 15 * time.Second

// promptly is how long something takes at most that waits for no interval or limit of the engine, on
// a busy computer. How fast it is otherwise, make bench-provision measures.
const promptly = time.Minute

// ample is a limit of the engine that does not end on a busy computer what is to succeed, and that
// takes far longer than promptly.
const ample = 5 * time.Minute

// moment is a point of a process in a stage: at one of its effects, or at its commit.
type moment struct {
	effect string
	at     drivertest.Point
}

const (
	commit = "the commit"
	// telling is the write of a stage that only waits.
	telling = "the event"
)

// atFirst is before the first effect, whatever it is.
var atFirst = moment{"its effect", drivertest.Before}

func (m moment) String() string { return string(m.at) + " " + m.effect }

// momentsOf returns the moments at which a process dies in a stage with those effects: before the
// first of them, after each, and after the commit. In a stage without effects that is only before
// and after its commit.
func momentsOf(effects []string) []moment {
	all := []moment{atFirst}
	for _, e := range effects {
		all = append(all, moment{e, drivertest.After})
	}
	return append(all, moment{commit, drivertest.After})
}

// changes are the writes that are a stage's effect, if it has none on a driver.
var changes = []string{"publish", "retract", "exchange", "refresh", "arrive", "move",
	"add-volume", "drop-volume", "domain", "attachment", "place", "nic", "fenced"}

// recording are the stages that only write such changes.
var recording = []string{"publish", "show-volume", "show-nic", "move", "fence"}

// waits are the stages that only wait.
var waits = []string{"ready", "finish", "recover"}

// atEach calls tell at each effect and commit of a process, with the stage that is being done or,
// with back, undone. tell may end the process, or wait until ctx ends.
func (l *lab) atEach(p *process, tell func(ctx context.Context, back bool, stage string, m moment) error) {
	now := func() (back bool, stage string) {
		if s := p.store.undoing.Load(); s != nil {
			return true, *s
		}
		if s := p.store.inHand.Load(); s != nil {
			return false, *s
		}
		return false, ""
	}
	p.store.fail(func(write, of string, at drivertest.Point) error {
		ctx := context.Background()
		switch back, stage := now(); {
		case write == "step" && of != "":
			return tell(ctx, false, of, moment{commit, at})
		case write == "undone":
			return tell(ctx, true, of, moment{commit, at})
		case slices.Contains(changes, write):
			return tell(ctx, back, stage, moment{write, at})
		case write == "event" && !back && slices.Contains(waits, of):
			return tell(ctx, false, of, moment{telling, at})
		}
		return nil
	})
	driver := func(ctx context.Context, name string, at drivertest.Point) error {
		back, stage := now()
		return tell(ctx, back, stage, moment{name, at})
	}
	l.pool.Fail(driver)
	l.eachHypervisor(func(h *drivertest.Hypervisor) { h.Fail(driver) })
	l.host.scripts.Fail(driver)
}

// unarmed removes all failpoints of drivers.
func (l *lab) unarmed() {
	l.pool.Fail(nil)
	l.eachHypervisor(func(h *drivertest.Hypervisor) { h.Fail(nil) })
	l.host.scripts.Fail(nil)
}

// reaches reports whether a process that is at now has reached m in the same stage.
func (m moment) reaches(now moment) bool {
	return m == now || m == atFirst && now.at == drivertest.Before
}

// rehearsal maps each stage to its effects, in the order in which they first occur.
type rehearsal struct {
	mu sync.Mutex
	of map[string][]string
}

func (e *rehearsal) note(stage string, m moment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[string][]string{}
	}
	all := e.of[stage]
	if m.effect != commit && m.at == drivertest.Before && !slices.Contains(all, m.effect) {
		all = append(all, m.effect)
	}
	e.of[stage] = all // also for a stage without effects
}

// rehearse runs a case, and returns the effects of each of its Stages.
func (c jobCase) rehearse(t *testing.T) map[string][]string {
	var found rehearsal
	t.Run("rehearsal", func(t *testing.T) {
		l := newLab(t).withProfile(seedbed.ReadyMetadata)
		a := c.begin(l)
		p := l.start(func(p *process) {
			l.atEach(p, func(_ context.Context, _ bool, stage string, m moment) error { found.note(stage, m); return nil })
		})
		l.wait(a.id, seedbed.JobSucceeded)
		p.stop()
		l.unarmed()
		a.done()
		for _, s := range c.plan() {
			if _, there := found.of[s.Name]; !there {
				t.Errorf("stage %s was not gone through", s.Name)
			}
		}
	})
	return found.of
}

// TestKillMatrix kills a process in every stage of every plan: before its first effect, after each
// and after its commit. It checks that another process completes the job, with nothing lost, done
// twice or left behind.
func TestKillMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range matrix(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := c.rehearse(t)
			for _, s := range c.stages(t) {
				for _, m := range sample.Of(t, momentsOf(found[s.Name]), 1) {
					t.Run(fmt.Sprintf("%s/%s", s.Name, m), func(t *testing.T) {
						t.Parallel()
						l := newLab(t).withProfile(seedbed.ReadyMetadata)
						a := c.begin(l)
						var reached atomic.Bool
						p := l.start(func(p *process) {
							l.atEach(p, func(_ context.Context, _ bool, stage string, now moment) error {
								if stage == s.Name && m.reaches(now) && reached.CompareAndSwap(false, true) {
									p.kill()
									return errKilled
								}
								return nil
							})
						})
						l.died(a.id, &reached)
						p.stop()
						l.unarmed()
						l.runUntil(a.id, seedbed.JobSucceeded)
						a.done()
					})
				}
			}
		})
	}
}

// planInputs are the inputs of jobs whose plans may depend on a part of them.
var planInputs = []any{
	seedbed.ScriptedSpec{}, seedbed.CloneJob{}, seedbed.RebuildSpec{},
	seedbed.PowerSpec{}, seedbed.MigrateSpec{}, movedOff, movedLost, movedLostOff,
	seedbed.FailoverSpec{}, seedbed.ResizeSpec{},
	seedbed.ImportSpec{}, seedbed.OVAJob{}, seedbed.AdoptSpec{}, seedbed.SnapshotJob{}, seedbed.SnapshotRestore{},
	seedbed.SnapshotRestore{PowerSpec: seedbed.PowerSpec{Was: seedbed.InstanceStopped}},
	seedbed.ImportSpec{From: &seedbed.VolumeSource{}},
	seedbed.ImportSpec{From: &seedbed.VolumeSource{}, Generalised: &seedbed.VolumeSource{}},
	seedbed.ImageRemoval{}, seedbed.VolumeJob{}, seedbed.Removal{}, seedbed.NICJob{},
}

// movedLost is the input of a job that takes an instance which is to run from a node that was fenced.
var movedLost = seedbed.MigrateSpec{PowerSpec: seedbed.PowerSpec{Was: seedbed.InstanceRunning}, Lost: true}

// movedLostOff is the same for one that is off.
var movedLostOff = seedbed.MigrateSpec{PowerSpec: seedbed.PowerSpec{Was: seedbed.InstanceStopped}, Lost: true}

// movedOff is the input of a job that takes an instance which is off to another node.
var movedOff = seedbed.MigrateSpec{PowerSpec: seedbed.PowerSpec{Was: seedbed.InstanceStopped}}

// inputs returns an input with all combinations of its switches.
func inputs(of any) (all []json.RawMessage) {
	v := reflect.New(reflect.TypeOf(of)).Elem()
	v.Set(reflect.ValueOf(of))
	var switches []reflect.Value
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Type.Kind() == reflect.Bool {
			switches = append(switches, v.FieldByIndex(f.Index))
		}
	}
	for set := range 1 << len(switches) {
		for n, s := range switches {
			s.SetBool(set>>n&1 == 1)
		}
		all = append(all, inputOf(v.Interface()))
	}
	return all
}

// TestMatrixIsWhole checks that every plan of a job of any kind, with any input, has a case, and
// that every kind has a plan.
func TestMatrixIsWhole(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff(seedbed.JobKinds(), (&plans.Planner{}).Kinds()); d != "" {
		t.Errorf("kinds with a plan (-all +planned):\n%s", d)
	}
	cases := map[string]bool{}
	key := func(j *seedbed.Job) string { return fmt.Sprint(j.Kind, " ", plans.StageNames(j)) }
	for _, c := range jobCases {
		cases[key(&c.job)] = true
	}
	possible := map[string]bool{}
	for _, kind := range (&plans.Planner{}).Kinds() {
		for _, of := range planInputs {
			for _, input := range append(inputs(of), nil) {
				job := seedbed.Job{Kind: kind, Spec: input}
				if possible[key(&job)] = true; !cases[key(&job)] {
					t.Errorf("no case has the stages %v of a %s job with %s", plans.StageNames(&job), kind, input)
				}
			}
		}
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(possible)), slices.Sorted(maps.Keys(cases))); d != "" {
		t.Errorf("plans (-possible +cases):\n%s", d)
	}
	limited := map[string]bool{}
	for stage := range config.Default().Jobs.StageTimeout {
		limited[stage] = true
	}
	for _, c := range jobCases {
		for _, stage := range plans.StageNames(&c.job) {
			if !limited[stage] {
				t.Errorf("stage %s of a %s job has no timeout: add one in internal/config/default.go", stage, c.job.Kind)
			}
		}
	}
	made := plans.StageNames(&seedbed.Job{Kind: seedbed.JobCreate, Spec: inputOf(seedbed.ScriptedSpec{Scripted: true})})
	rebuilt := plans.StageNames(&seedbed.Job{Kind: seedbed.JobRebuild, Spec: inputOf(seedbed.RebuildSpec{Scripted: true})})
	if len(made) != 12 || len(rebuilt) != 16 {
		t.Errorf("a script's plans have %d and %d stages", len(made), len(rebuilt))
	}
}
