package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
	"seedbed/internal/lab"
	"seedbed/internal/sample"
)

// caller runs the tool in this process, on the API of a world.
type caller struct {
	world *world
	dir   string
	files int
}

// answer is what a command line ended with.
type answer struct {
	status   int
	out, err string
}

func (a answer) String() string { return fmt.Sprintf("status %d\n%s%s", a.status, a.out, a.err) }

// run runs a command line with a token.
func (c *caller) run(ctx context.Context, secret string, args ...string) answer {
	env := map[string]string{"HOME": c.dir, "SEEDBED_URL": "http://" + c.world.apiAddr, "SEEDBED_TOKEN": secret}
	var out, errs bytes.Buffer
	a := &cli.App{
		In: strings.NewReader(""), Out: &out, Err: &errs, Now: time.Now, Commands: commands,
		Getenv: func(name string) string { return env[name] },
	}
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	status := a.Main(ctx, args)
	return answer{status, out.String(), errs.String()}
}

// must runs a command line of the operators, which has to succeed, and returns its output.
func (c *caller) must(t *testing.T, line string) string {
	t.Helper()
	a := c.run(t.Context(), testToken, strings.Fields(line)...)
	if a.status != 0 {
		t.Fatalf("seedbed %s: %v", line, a)
	}
	return a.out
}

// decoded runs a command line of the operators and decodes its output.
func decoded[T any](t *testing.T, c *caller, line string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.must(t, line+" -f json")), &v); err != nil {
		t.Fatalf("seedbed %s: %v", line, err)
	}
	return v
}

// file returns the path of a new file with a text.
func (c *caller) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// objects are the names of one object of each kind, by the words of objectCommands.
type objects map[string]string

// populate makes objects in a project, whose names end in suffix.
func (c *caller) populate(t *testing.T, project, suffix string) objects {
	t.Helper()
	n := objects{"project": "beta"} // not default, which everybody knows
	for _, kind := range []string{"instance", "image", "network", "person", "held", "volume"} {
		n[kind] = kind + suffix
	}
	for _, kind := range []string{"hook", "endpoint", "token", "profile", "system", "lan", "storage", "userdata", "script",
		"securitygroup", "placementgroup"} {
		n[kind] = seedbed.Qualified(project, kind+suffix)
	}
	n["held-of"] = seedbed.Qualified(project, n["held"])
	in, lent := " --project "+project, netip.MustParseAddr("203.0.113."+suffix)
	disk := filepath.Join(c.dir, "disk")
	for _, image := range []string{n["image"], n["held"]} {
		c.must(t, "image add "+image+" "+disk+in)
	}
	if _, err := c.world.db.CreateNetwork(t.Context(), seedbed.Network{
		Name: n["network"], Bridge: "br" + suffix, MAC: seedbed.NewMAC(), NAT: true, DHCP: true,
		Prefix: netip.MustParsePrefix("10.9." + suffix + ".0/24"), Gateway: netip.MustParseAddr("10.9." + suffix + ".1"),
		NetworkOptions: seedbed.NetworkOptions{Floating: []seedbed.AddrRange{{First: lent, Last: lent}}, FloatingUplink: "ext0"},
	}); err != nil {
		t.Fatal(err)
	}
	n["address"] = lent.String()
	if _, err := c.world.db.AllocateFloating(t.Context(), seedbed.FloatingAddress{Network: n["network"], Project: project}); err != nil {
		t.Fatal(err)
	}
	c.must(t, "security-group add securitygroup"+suffix+" in tcp"+in)
	c.must(t, "placement-group add placementgroup"+suffix+" affinity"+in)
	c.must(t, "network add "+n["held"]+" --kind isolated --prefix 10.78.0.0/24"+in)
	for _, kind := range []string{"hook", "held"} {
		c.must(t, "hook add "+n[kind]+" --no-save"+in)
	}
	for _, kind := range []string{"endpoint", "held"} {
		c.must(t, "endpoint add "+n[kind]+" https://hooks.example/ --event job.failed"+in)
	}
	for _, kind := range []string{"token", "held"} {
		c.must(t, "token add "+n[kind]+" --role viewer"+in)
	}
	for _, name := range []string{"", n["held"]} {
		c.must(t, "template system add "+cmp.Or(name, n["system"])+" -u 1 -m 512"+in)
		c.must(t, "template network add "+cmp.Or(name, n["lan"])+in)
		c.must(t, "template storage add "+cmp.Or(name, n["storage"])+in)
		c.must(t, "userdata add "+cmp.Or(name, n["userdata"])+" "+filepath.Join(c.dir, "cloud.yaml")+in)
		c.must(t, "script add "+cmp.Or(name, n["script"])+" "+filepath.Join(c.dir, "install.py")+in)
		c.must(t, "profile add "+cmp.Or(name, n["profile"])+" --image debian"+in)
	}
	c.must(t, "template storage disk add "+n["storage"]+" sda -p default -i default/debian"+in)
	c.must(t, "create "+n["held"]+" --image debian"+in)
	c.must(t, "create gone"+suffix+" --image debian"+in)
	c.must(t, "vm remove gone"+suffix+" -y"+in)
	c.must(t, "create "+n["instance"]+" --image debian"+in)
	c.must(t, "volume add "+n["volume"]+" --size 1GiB"+in)
	c.must(t, "vm stop "+n["instance"]+" --force"+in)
	n["snapshot"] = "before" + suffix
	c.must(t, "vm snapshot create "+n["instance"]+" "+n["snapshot"]+in)
	for _, j := range decoded[[]seedbed.Job](t, c, "job list --subject "+n["instance"]+in) {
		n["job"], n["short-job"] = string(j.ID), j.ID.Short()
	}
	n["maintenance"] = decoded[seedbed.Maintenance](t, c, "vm maintenance "+n["instance"]+" --not-before +48h"+in).ID
	n["delivery"] = "delivery" + suffix
	who := seedbed.Person{Issuer: "https://login.example", Subject: n["person"], Name: n["person"]}
	session, err := c.world.db.BeginSession(t.Context(), who, time.Now().Add(time.Hour), "192.0.2.1", sha256.Sum256([]byte(n["person"])))
	if err != nil {
		t.Fatal(err)
	}
	n["session"] = session.ID
	if err := c.world.db.RecordDelivery(t.Context(), seedbed.Delivery{
		Hook: n["hook"], ID: n["delivery"], Received: time.Now(), Decision: seedbed.DecisionIgnored,
	}); err != nil {
		t.Fatal(err)
	}
	trash := decoded[[]seedbed.TrashItem](t, c, "trash list"+in)
	if len(trash) == 0 {
		t.Fatal("the trash is empty")
	}
	n["trash"], n["restored"] = trash[0].ID, trash[0].Name
	return n
}

// ofAll makes the objects of the installation that have no project.
func (c *caller) ofAll(t *testing.T) objects {
	t.Helper()
	n := objects{"node": "hv1", "domain": "old", "role": "starter", "ova": "machine"}
	disk := c.file(t, "disk", "a disk")
	c.must(t, "image add debian "+disk)
	c.must(t, "project share image debian --all")
	c.must(t, "role add starter --allow instance.read")
	c.file(t, "cloud.yaml", "#cloud-config\n")
	c.file(t, "install.py", "def install(**kwargs):\n    pass\n")
	return n
}

// likes returns names like those of objects, of the same length, that nothing has.
func (n objects) likes() objects {
	all := objects{}
	for kind, name := range n {
		b := []byte(name)
		at := len(b) - 1
		if kind == "job" {
			at = len(n["short-job"]) - 1
		}
		switch b[at] {
		case '9', 'z':
			b[at]--
		case 'f':
			b[at] = 'e'
		default:
			b[at]++
		}
		all[kind] = string(b)
	}
	return all
}

// line returns the command line of a row with the names.
func (c *caller) line(command, row string, n objects) []string {
	c.files++
	pairs := []string{"{file}", filepath.Join(c.dir, "disk"), "{secret}", filepath.Join(c.dir, "secret"),
		"{out}", filepath.Join(c.dir, fmt.Sprintf("out%06d", c.files))}
	for kind, name := range n {
		pairs = append(pairs, "{"+kind+"}", name)
	}
	r := strings.NewReplacer(pairs...)
	args := strings.Fields(command + " " + row)
	for i := range args {
		args[i] = r.Replace(args[i])
	}
	return args
}

// without returns an answer with a word for each argument in which two command lines differ.
func (a answer) without(one, other []string) answer {
	for i := range one {
		if one[i] == other[i] {
			continue
		}
		for _, word := range []string{one[i], other[i]} {
			names := []string{word}
			if _, plain, qualified := strings.Cut(word, "/"); qualified {
				names = append(names, plain)
			}
			if name, _, ofInstance := strings.Cut(word, ":"); ofInstance && name != "" { // a file or a disk
				names = append(names, name)
			}
			if len(word) == len(seedbed.NewJobID()) {
				names = append(names, seedbed.JobID(word).Short())
			}
			for _, name := range names {
				a.out, a.err = strings.ReplaceAll(a.out, name, "NAME"), strings.ReplaceAll(a.err, name, "NAME")
			}
		}
	}
	return a
}

// tree returns the commands of the tool that do something, by their paths.
func tree() map[string]*cobra.Command {
	a := &cli.App{Getenv: func(string) string { return "" }, Commands: commands}
	all := map[string]*cobra.Command{}
	for _, c := range cli.CommandsOf(a.Root()) {
		if c.Runnable() && (!c.HasSubCommands() || strings.Contains(c.Use, " ")) {
			all[strings.TrimPrefix(c.CommandPath(), "seedbed ")] = c
		}
	}
	return all
}

// rowsOf returns the rows of a command.
func rowsOf(path string) []string {
	if rows := objectCommands[path]; rows != nil {
		return rows
	}
	return objectCommands[strings.TrimPrefix(path, "provisioner ")]
}

// TestEveryCommandNamesAnObjectOrNone checks that the tables have each command of the tree, and no others.
func TestEveryCommandNamesAnObjectOrNone(t *testing.T) {
	t.Parallel()
	all := tree()
	for path := range all {
		rows, why := rowsOf(path), objectless[path]
		if why == "" {
			why = objectless[strings.TrimPrefix(path, "provisioner ")]
		}
		if len(rows) == 0 && why == "" {
			t.Errorf("%q has no row in objectCommands, and objectless does not say why", path)
		}
		if len(rows) > 0 && why != "" {
			t.Errorf("%q has a row in objectCommands and one in objectless", path)
		}
	}
	for _, path := range slices.Concat(slices.Collect(maps.Keys(objectCommands)), slices.Collect(maps.Keys(objectless))) {
		if all[path] == nil {
			t.Errorf("there is no command %q", path)
		}
	}
}

// TestForeignObjectsOfCommands runs each command with a token of each role of one project, on the objects
// of other projects and on objects that do not exist. All of the answers must be the same but for the names.
func TestForeignObjectsOfCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := newWorld(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	c := &caller{world: w, dir: dir}
	c.file(t, "secret", strings.Repeat("0123456789abcdef", 4))
	whole := c.ofAll(t)
	c.must(t, "project add acme")
	c.must(t, "project add beta")
	tokens := map[seedbed.Role]string{}
	for _, role := range seedbed.Roles() {
		tokens[role], _, _ = strings.Cut(c.must(t, "token add "+string(role)+" --role "+string(role)+" --project acme"), "\n")
		if a := c.run(t.Context(), tokens[role], "whoami"); a.status != 0 {
			t.Fatal(a)
		}
	}
	theirs := []objects{c.populate(t, "default", "7"), c.populate(t, "beta", "4")}
	c.must(t, "image add mine "+filepath.Join(dir, "disk")+" --project acme")
	c.must(t, "hook add mine --no-save --project acme")
	state := func() string {
		all := ""
		for _, project := range []string{"default", "beta"} {
			for _, list := range []string{
				"vm", "job", "image", "network", "hook", "endpoint", "token", "trash", "profile", "template system", "template network",
				"template storage", "userdata", "script",
			} {
				all += c.must(t, list+" list -f json --project "+project)
			}
		}
		return all
	}
	type pair struct {
		one, other []string
		role       seedbed.Role
	}
	// What an admin may do is asked of everything. The other roles may do less, and a part of it is asked of them.
	var pairs, ofOthers []pair
	before, tree := state(), tree()
	for _, path := range slices.Sorted(maps.Keys(objectCommands)) {
		rows := objectCommands[path]
		if tree[path].Flags().Lookup("yes") != nil {
			for _, row := range rows {
				rows = append(slices.Clip(rows), row+" -y")
			}
		}
		for _, row := range rows {
			var last []string
			for i, there := range theirs {
				maps.Copy(there, whole)
				one, other := c.line(path, row, there), c.line(path, row, there.likes())
				if slices.Equal(one, last) { // what is of the installation has no project
					continue
				}
				last = one
				pairs = append(pairs, pair{one, other, seedbed.RoleAdmin})
				for _, role := range seedbed.Roles() {
					if i == 0 && role != seedbed.RoleAdmin { // of the second project only what may do most
						ofOthers = append(ofOthers, pair{one, other, role})
					}
				}
			}
		}
	}
	if len(pairs)+len(ofOthers) < 600 {
		t.Errorf("there are only %d pairs of answers to compare", len(pairs)+len(ofOthers))
	}
	for _, p := range append(pairs, sample.Of(t, ofOthers, len(ofOthers)/10)...) {
		foreign, none := c.run(t.Context(), tokens[p.role], p.one...), c.run(t.Context(), tokens[p.role], p.other...)
		if strings.Contains(foreign.err, "usage: ") {
			t.Errorf("seedbed %s: %v: the row is not a command line", strings.Join(p.one, " "), foreign)
		}
		if foreign.without(p.one, p.other) != none.without(p.one, p.other) {
			t.Errorf("as %s of acme: seedbed %s: %v\nbut seedbed %s: %v", p.role, strings.Join(p.one, " "), foreign,
				strings.Join(p.other, " "), none)
		}
	}
	if after := state(); after != before {
		t.Errorf("the others had\n%s\nand have\n%s", before, after)
	}
}
