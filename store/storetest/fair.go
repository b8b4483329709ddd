package storetest

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"seedbed"
)

var fairCases = map[string]func(*bench){
	"in turns":                      testTurns,
	"to the one with fewest slots":  testFewestSlots,
	"priority within a project":     testPriorityInProject,
	"a project that has to wait":    testWaitingProject,
	"as a model":                    testFairModel,
	"jobs whose lease has expired":  testFairTakeover,
	"a project of any name":         testAnyProjectsTurn,
	"many projects, and many jobs":  testManyProjects,
	"one project as there was none": testOneProject,
}

// queueIn accepts creates of instances of a project, one after the other.
func (b *bench) queueIn(project string, names ...string) (ids []seedbed.JobID) {
	b.Helper()
	for _, name := range names {
		a := inProject(project, name)
		get(b.Accept(context.Background(), a))(b)
		ids = append(ids, a.Job.ID)
	}
	return ids
}

// engine claims jobs as an engine does.
type engine struct {
	*bench
	slots map[string]int
	last  string
	limit int // of jobs on a node
}

// next claims a job, and returns its subject with its project. It is empty if there is none.
func (e *engine) next() string {
	e.Helper()
	j := get(e.ClaimNext(context.Background(), seedbed.ClaimOptions{
		Owner: "test", Lease: lease, Slots: e.slots, Last: e.last, PerNode: e.limit,
	}))(e.bench)
	if j == nil {
		return ""
	}
	e.slots[j.Project]++
	e.last = j.Project
	return seedbed.Named(j.Project, j.Subject).String()
}

func (e *engine) all() (names []string) {
	for name := e.next(); name != ""; name = e.next() {
		names = append(names, name)
	}
	return names
}

func (b *bench) engine() *engine { return &engine{bench: b, slots: map[string]int{}} }

// projects adds projects.
func (b *bench) projects(names ...string) {
	b.Helper()
	b.world()
	for _, name := range names {
		b.project(name)
	}
}

// With one slot, which is free at each claim, the projects take turns.
func testTurns(b *bench) {
	b.projects("acme", "zoo")
	b.queueIn("acme", "a1", "a2", "a3", "a4")
	b.queueIn(seedbed.DefaultProject, "d1")
	b.queueIn("zoo", "z1", "z2")
	e := b.engine()
	var got []string
	for range 7 {
		got = append(got, e.next())
		clear(e.slots)
	}
	b.equal(got, []string{"a1.acme", "d1", "z1.zoo", "a2.acme", "z2.zoo", "a3.acme", "a4.acme"})
	b.equal(e.next(), "")
}

func testFewestSlots(b *bench) {
	b.projects("acme", "zoo")
	b.queueIn("acme", "a1", "a2", "a3", "a4")
	b.queueIn("zoo", "z1", "z2", "z3")
	e := b.engine()
	e.slots["acme"] = 2
	b.equal(e.all(), []string{"z1.zoo", "z2.zoo", "a1.acme", "z3.zoo", "a2.acme", "a3.acme", "a4.acme"})
}

// A high priority does not overtake other projects.
func testPriorityInProject(b *bench) {
	b.projects("acme", "zoo")
	b.queueIn("acme", "a1", "a2")
	urgent := inProject("acme", "a3")
	urgent.Job.Priority = seedbed.PriorityHigh
	get(b.Accept(context.Background(), urgent))(b)
	b.queueIn("zoo", "z1", "z2")
	b.equal(b.engine().all(), []string{"a3.acme", "z1.zoo", "a1.acme", "z2.zoo", "a2.acme"})
}

// A project whose jobs all wait for a node does not hold up the others.
func testWaitingProject(b *bench) {
	b.projects("acme", "zoo")
	b.queueIn("acme", "a1", "a2")
	b.must(b.EnsureNode(context.Background(), "other"))
	elsewhere := inProject("zoo", "z1")
	elsewhere.Instance.Node = "other"
	get(b.Accept(context.Background(), elsewhere))(b)
	e := b.engine()
	e.limit = 1
	b.equal(e.all(), []string{"a1.acme", "z1.zoo"})
	e.limit = 0
	b.equal(e.all(), []string{"a2.acme"})
}

// Random jobs of four projects are claimed as a model says.
func testFairModel(b *bench) {
	names := []string{"a", "b", "c", seedbed.DefaultProject}
	b.projects(names[:3]...)
	random := rand.New(rand.NewPCG(1, 2))
	waiting := map[string][]string{}
	e := b.engine()
	for n := range 120 {
		if random.IntN(2) == 0 {
			project, name := names[random.IntN(len(names))], nameN(n)
			b.queueIn(project, name)
			waiting[project] = append(waiting[project], seedbed.Named(project, name).String())
		}
		if len(e.slots) > 0 && random.IntN(3) == 0 { // a job ends
			ends := slices.Sorted(maps.Keys(e.slots))
			project := ends[random.IntN(len(ends))]
			if e.slots[project]--; e.slots[project] == 0 {
				delete(e.slots, project)
			}
		}
		// The model: the fewest slots, then the first name after the last one's.
		chosen := ""
		for _, project := range slices.Sorted(maps.Keys(waiting)) {
			before := func(a, b string) bool {
				if e.slots[a] != e.slots[b] {
					return e.slots[a] < e.slots[b]
				}
				return a > e.last && b <= e.last || (a > e.last) == (b > e.last) && a < b
			}
			if len(waiting[project]) > 0 && (chosen == "" || before(project, chosen)) {
				chosen = project
			}
		}
		want := ""
		if chosen != "" {
			want, waiting[chosen] = waiting[chosen][0], waiting[chosen][1:]
		}
		b.equal(e.next(), want)
	}
}

// A job whose lease has expired is claimed again, also if its project has no other.
func testFairTakeover(b *bench) {
	b.projects("acme")
	ids := b.queueIn("acme", "a1")
	b.equal(get(b.ClaimJob(context.Background(), "gone", time.Millisecond))(b).ID, ids[0])
	e := b.engine()
	e.slots["acme"] = 3
	b.until("takeover", func() bool { return e.next() == "a1.acme" })
}

// The last project need not exist any more, nor have jobs.
func testAnyProjectsTurn(b *bench) {
	b.projects("acme", "zoo")
	b.queueIn("acme", "a1")
	b.queueIn("zoo", "z1")
	e := b.engine()
	e.last = `m"'$.none`
	e.slots[`n"'$.`] = 7
	b.equal(e.all(), []string{"z1.zoo", "a1.acme"})
}

func testManyProjects(b *bench) {
	b.projects()
	for n := range 40 {
		b.project(nameN(n))
		b.queueIn(nameN(n), "one")
	}
	names := make([]string, 100)
	for n := range names {
		names[n] = nameN(n)
	}
	b.queueIn(seedbed.DefaultProject, names...)
	// One job of each of the 41 projects comes before the second of any.
	e := b.engine()
	for range 41 {
		e.next()
	}
	b.equal(len(e.slots), 41)
}

// The jobs of a single project come in the order of their priority and age.
func testOneProject(b *bench) {
	b.projects()
	b.queueIn(seedbed.DefaultProject, "w1", "w2", "w3")
	b.equal(b.engine().all(), []string{"w1", "w2", "w3"})
}
