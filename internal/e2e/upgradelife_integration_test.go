//go:build integration

package e2e

// fillLife gives instances from before the upgrade what they may have after their birth, and makes what they share.
func (u *upgraded) fillLife() {
	u.t.Helper()
	u.cli("placement-group", "add", "apart", "soft-anti-affinity")
	u.cli("vm", "notes", "web2", "from before")
	u.cli("vm", "expire", "web2", "--at", "2d", "--action", "remove")
	u.cli("volume", "add", "data", "--size", "1GiB", "--no-wait")
	u.cli("network", "add", "dark", "--prefix", "10.98.0.0/24", "--kind", "isolated")
	u.cli("security-group", "add", "web", "in tcp 80")
	u.cli("profile", "add", "spread", "--storage-template", "root", "--vcpus", "1", "--memory", "512MiB", "--network", "default",
		"--boot", "network", "--placement-group", "apart")
}

// checkLife expects that all of that is there, and that it can be changed.
func (u *upgraded) checkLife() {
	u.t.Helper()
	u.shows([]string{"vm", "show", "web2"}, "from before", "and is removed")
	u.shows([]string{"volume", "list"}, "data", "1GiB")
	u.shows([]string{"network", "show", "dark"}, "10.98.0.0/24", "isolated")
	u.shows([]string{"security-group", "show", "web"}, "tcp", "80")
	u.shows([]string{"profile", "show", "spread"}, "network", "apart")
	u.cli("vm", "expire", "web2", "--never")
	u.cli("profile", "set", "spread", "--placement-group", "")
	u.cli("placement-group", "remove", "apart", "--yes")
	u.cli("security-group", "remove", "web", "--yes")
}
