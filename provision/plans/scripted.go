package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/record"
)

// scriptSteps are the steps of a provisioning script, in order (PVC's VMBuilder).
var scriptSteps = []string{"setup", "create", "prepare", "install", "cleanup"}

// scriptedStages makes an instance by a provisioning script, in PVC's stages. One process runs all
// steps of the script. Its state is lost with its worker, with this engine's lease, or with an
// interrupted turn. Everything that it made is then removed, and the script starts again from its
// first step. The domain is defined when its disks are complete.
func (t *task) scriptedStages() []engine.Stage {
	return append(t.scriptStages(),
		engine.Stage{Name: "general-cleanup", Run: t.endScript, Undo: t.undefineDomain, Made: t.madeDomain},
		engine.Stage{Name: "publish", Run: t.publishNew, Undo: t.retract},
		engine.Stage{Name: "start", Run: t.startUnlessHeld, Undo: t.destroyDomain, State: seedbed.InstanceRunning,
			Guards: "not undone, because the domain could not be switched off"},
		engine.Stage{Name: "finish", Run: t.awaitGuest},
	)
}

// scriptStages returns the stages in which a script makes disks, from nothing to complete.
func (t *task) scriptStages() []engine.Stage {
	plan := []engine.Stage{
		{Name: "collect", Run: t.collectScript},
		{Name: "verify", Run: t.verifyScript},
		{Name: "prepare-script", Run: t.prepareScript, Undo: t.closeScript, Limit: t.scriptLimit("prepare-script")},
	}
	for i, step := range scriptSteps {
		s := engine.Stage{Name: step, Limit: t.scriptLimit(step), Run: func(ctx context.Context) error { return t.scriptStep(ctx, i) }}
		if i == 0 { // before it there is nothing that a script could have made
			s.Undo, s.Made = t.undoScript, t.madeVolumes
		}
		plan = append(plan, s)
	}
	return plan
}

// scriptedBy returns the spec of a job that creates an instance of a profile with a script; the
// zero value for any other job.
func scriptedBy(job *seedbed.Job) (spec seedbed.ScriptedSpec) {
	if job.Kind != seedbed.JobCreate || len(job.Spec) == 0 || json.Unmarshal(job.Spec, &spec) != nil {
		return seedbed.ScriptedSpec{}
	}
	return spec
}

// scriptSide is the script of a task.
type scriptSide struct {
	run seedbed.ScriptRun
	// live is set while its process is known to run. done counts the completed steps.
	live bool
	done int
	// begun counts how often it was started, and told the lines of its log that became events.
	begun, told int
	// pools are the pools in which it may make volumes.
	pools []string
	// covers replaces secrets by placeholders.
	covers *strings.Replacer
	// failed is set while only its cleanup may still run.
	failed bool
}

// scriptFailure is an exception that a script raised. It is not a failure of Seedbed, and a retry
// would not help.
type scriptFailure struct {
	seedbed.ScriptFailure
	// script is its name.
	script string
}

func (e *scriptFailure) Error() string {
	text := fmt.Sprintf("Error in script %s() step: %s", e.Step, e.Message)
	if e.Step == "load" {
		text = fmt.Sprintf("the script cannot be loaded: %s: %s", e.Class, e.Message)
	}
	if e.Offline {
		text += " (" + offline(e.script) + ")"
	}
	return text
}

// offline says that a script has tried to use a network that it does not have.
func offline(script string) string {
	return fmt.Sprintf("the script tried to reach the network and had none: seedbed script options %s --network lets it use the host's",
		script)
}

// shortSecret is the minimum length in bytes of a secret that is searched for in texts: a shorter
// one is part of too many words.
const shortSecret = 4

// covers returns a replacer for secrets in a script's output. It replaces them as a whole and line
// by line.
func covers(secrets []string) *strings.Replacer {
	var pairs []string
	longest := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) })
	for _, s := range longest {
		for _, part := range append([]string{s}, strings.Split(s, "\n")...) {
			if part = strings.TrimSpace(part); len(part) >= shortSecret {
				pairs = append(pairs, part, "***")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// scriptRun returns the task's script, as it was when its job was accepted.
func (t *task) scriptRun(ctx context.Context) (*scriptSide, error) {
	if t.script == nil {
		run, err := t.store.ScriptRun(ctx, t.Ref.ID)
		if err != nil {
			return nil, fmt.Errorf("the job's script: %w", engine.FromStore(err))
		}
		t.script = &scriptSide{run: run, covers: covers(run.Secrets)}
	}
	return t.script, nil
}

func (t *task) collectScript(ctx context.Context) error {
	s, err := t.scriptRun(ctx)
	if err != nil {
		return err
	}
	t.Event("info", 100, "script %s (revision %d) with the templates %s, %s and %s", s.run.Script.Name, s.run.Script.Revision,
		s.run.System.Name, s.run.Network.Name, s.run.Storage.Name)
	if s.run.Script.Options.Privileged {
		t.Event("warn", 100, "script %s is privileged: it runs as root on node %s with the host's devices, if the node allows that "+
			"(scripts.privileged)", s.run.Script.Name, t.Node())
	}
	return nil
}

// prepareScript loads the script. A script that is not valid Python fails here.
func (t *task) prepareScript(ctx context.Context) error {
	if err := t.beginScript(ctx); err != nil {
		return err
	}
	t.Event("info", 100, "the script is loaded")
	return nil
}

// scriptStep runs step n of a script that has completed the steps before it.
func (t *task) scriptStep(ctx context.Context, n int) error {
	s, err := t.scriptRun(ctx)
	if err != nil {
		return err
	}
	if !s.live || s.done > n {
		if err := t.beginScript(ctx); err != nil {
			return err
		}
	}
	for ; s.done <= n; s.done++ {
		if s.done < n {
			t.Event("warn", 0, "running %s() again: the script that had run it no longer runs", scriptSteps[s.done])
		}
		if err := t.runStep(ctx, scriptSteps[s.done]); err != nil {
			return err
		}
	}
	t.Event("info", 100, "%s() has ended", scriptSteps[n])
	return nil
}

// runStep runs one step, and stores its result.
func (t *task) runStep(ctx context.Context, step string) error {
	if step == "create" && scriptedBy(t.Job).Undefined { // PVC asks for a domain only if it defines one
		t.Event("info", 100, "create() is skipped, because no VM is to be defined")
		return nil
	}
	result, err := t.scriptTurn(ctx, seedbed.ScriptTurn{Step: step})
	if err != nil {
		return err
	}
	if f := result.Failure; f != nil {
		return t.scriptFailed(ctx, *f, step)
	}
	if step != "create" {
		return nil
	}
	if err := t.checkScripted(ctx, result.XML); err != nil {
		return err
	}
	return t.Write(ctx, func(ctx context.Context) error { return t.store.SetScriptDomain(ctx, t.Ref, result.XML) })
}

// beginScript starts the script, after removing everything that an earlier run has made.
func (t *task) beginScript(ctx context.Context) error {
	s, err := t.scriptRun(ctx)
	if err != nil {
		return err
	}
	if s.begun > t.Attempts() {
		return seedbed.Errorf(seedbed.ErrConflict, "the script was begun %d times, and its process was lost each time", s.begun)
	}
	if err := t.takeBack(ctx); err != nil {
		return err
	}
	start, err := t.scriptStart(ctx)
	if err != nil {
		return err
	}
	s.begun++
	s.done, s.failed = 0, false
	result, err := t.scriptTurn(ctx, seedbed.ScriptTurn{Start: &start})
	if err != nil {
		return err
	}
	if result.Failure != nil {
		return t.scriptFailed(ctx, *result.Failure, "load")
	}
	s.live = true
	return nil
}

// takeBack ends the job's script, whichever engine started it, and removes what it made.
func (t *task) takeBack(ctx context.Context) error {
	if err := t.closeScript(ctx); err != nil {
		return err
	}
	inst, err := t.scripting(ctx)
	if err != nil {
		return err
	}
	return t.forgetVolumes(ctx, inst)
}

// forgetVolumes removes the volumes of an instance, and then their rows.
func (t *task) forgetVolumes(ctx context.Context, inst seedbed.Instance) error {
	if err := t.dropVolumes(ctx, inst); err != nil {
		return err
	}
	for _, v := range inst.Volumes {
		err := t.Write(ctx, func(ctx context.Context) error { return t.store.DropVolume(ctx, t.Ref, v.Pool, v.Name) })
		if err != nil {
			return err
		}
	}
	return nil
}

// closeScript ends the job's script, with its mounts and mappings.
func (t *task) closeScript(ctx context.Context) error {
	if t.script != nil {
		t.script.live = false
	}
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.CloseScript.Do(ctx, t.Worker(), call, effects.DomainRef{ID: t.Job.Instance})
	})
	if err != nil {
		return fmt.Errorf("end the script: %w", err)
	}
	return nil
}

func (t *task) undoScript(ctx context.Context) error { return t.takeBack(ctx) }

// endScript ends the script, whose disks are complete, and defines its domain.
func (t *task) endScript(ctx context.Context) error {
	if err := t.closeScript(ctx); err != nil {
		return err
	}
	if err := t.dropShown(ctx); err != nil {
		return err
	}
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	disks, err := t.disks(ctx, inst, nil)
	if err != nil {
		return err
	}
	xml, err := t.store.ScriptDomain(ctx, inst.ID)
	if err != nil {
		return engine.FromStore(err)
	}
	return t.defineScripted(ctx, inst, disks, xml)
}

// defineScripted defines an instance's domain from the document of its script.
func (t *task) defineScripted(ctx context.Context, inst seedbed.Instance, disks []seedbed.Disk, xml string) error {
	return t.define(ctx, inst, disks, documentOf(inst, xml))
}

// defineAsMade defines an instance's domain in the way it was made: from its script's document, or
// without one if a rebuild has replaced the script's disks.
func (t *task) defineAsMade(ctx context.Context, inst seedbed.Instance, disks []seedbed.Disk) error {
	xml, err := t.store.ScriptDomain(ctx, inst.ID)
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
		return t.define(ctx, inst, disks, nil)
	case err != nil:
		return engine.FromStore(err)
	case !record.MadeOf(xml, inst):
		return t.define(ctx, inst, disks, nil)
	}
	return t.defineScripted(ctx, inst, disks, xml)
}

// checkScripted refuses a domain that could not be defined, before any time is spent on its disks.
func (t *task) checkScripted(ctx context.Context, xml string) error {
	inst, err := t.scripting(ctx)
	if err != nil {
		return err
	}
	host, err := effects.ScriptHost.Ask(ctx, t.Worker(), effects.ToolNames{})
	if err != nil {
		return err
	}
	doc := seedbed.DomainScript{XML: xml, Early: true}
	for _, p := range host.Pools {
		doc.Volumes = append(doc.Volumes, p.Name)
	}
	spec, err := t.domain(ctx, inst, nil)
	if err != nil {
		return err
	}
	spec.Script = &doc
	notes, err := effects.CheckDomain.Ask(ctx, t.Worker(), spec)
	if err != nil {
		return err
	}
	slices.Sort(notes)
	for _, n := range slices.Compact(notes) {
		t.Event("warn", t.Progress(), "%s", n)
	}
	return nil
}

// lostScript reports whether a turn has failed because the script no longer runs.
func lostScript(err error) bool { return errors.Is(err, seedbed.ErrNotFound) }
