package provision

// removePlan takes an instance away, volumes included. It only goes forward: a
// half-removed instance is no use to anyone, and removing can be asked for again.
func removePlan() []stage {
	return []stage{
		{name: "stop", run: stopDomain},
		{name: "retract", run: retract},
		{name: "undefine", run: undefineDomain},
		{name: "delete", run: removeVolumes},
	}
}
