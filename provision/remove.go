package provision

// removePlan takes an instance away, volumes included. It only goes forward: a
// half-removed instance is no use to anyone, and removing can be asked for again.
func (t *task) removePlan() []stage {
	return []stage{
		{name: "stop", run: t.stopDomain},
		{name: "retract", run: t.retract},
		{name: "undefine", run: t.undefineDomain},
		{name: "delete", run: t.removeVolumes},
	}
}
