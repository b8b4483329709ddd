package provision

// removePlan removes an instance with its volumes. It is never undone: a partly removed instance is
// of no use, and a removal can be requested again.
func (t *task) removePlan() []stage {
	return []stage{
		{name: "stop", run: t.stopDomain},
		{name: "retract", run: t.retract},
		{name: "undefine", run: t.undefineDomain},
		{name: "delete", run: t.removeVolumes},
	}
}
