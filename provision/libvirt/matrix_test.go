package libvirt

import (
	"encoding/xml"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

var updateKept = flag.Bool("update-kept", false, "write testdata/scripted.txt: read the difference, it is what scripts may do to the host")

// keptFile lists all that a script's document may decide: "kept" as it is there, or "changed" to what
// the host decides.
const keptFile = "testdata/scripted.txt"

// TestScriptedMatrix tries each element, attribute and enumerated value that libvirt 9 knows
// (TestSchema) in a script's document. Each is kept, changed, refused, or left out and said.
func TestScriptedMatrix(t *testing.T) {
	t.Parallel()
	schema, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	host := scriptedHost
	host.DomainType = TypeKVM // where the model of a processor counts
	var kept []string
	for entry := range strings.Lines(string(schema)) {
		entry = strings.TrimSpace(entry)
		switch fate := fateOf(t, host, entry); fate {
		case "kept", "changed":
			kept = append(kept, fate+" "+entry)
		case "refused", "said":
		default:
			t.Errorf("%s is left out without a word", entry)
		}
	}
	got := strings.Join(kept, "\n") + "\n"
	if *updateKept {
		if err := os.WriteFile(keptFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(keptFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), kept); d != "" {
		t.Errorf("what a script may decide has changed (-want +got; if it is harmless to the host, write it with -update-kept):\n%s", d)
	}
}

// fateOf says what becomes of an entry of the schema in a document that is otherwise usual.
func fateOf(t *testing.T, host Host, entry string) string {
	t.Helper()
	path, value, _ := strings.Cut(entry, "=")
	var root tree
	if err := xml.Unmarshal([]byte(pvcDomain), &root); err != nil {
		t.Fatal(err)
	}
	root.put(strings.Split(path, "/")[1:], value)
	text, err := xml.Marshal(&root)
	if err != nil {
		t.Fatal(err)
	}
	doc, notes, err := ScriptedXML(scriptedSpec(string(text)), host)
	if err != nil {
		return "refused"
	}
	var made tree
	if err := xml.Unmarshal([]byte(doc), &made); err != nil {
		t.Fatal(err)
	}
	values := made.values(strings.Split(path, "/")[1:])
	switch {
	case value == "" && !strings.Contains(path, "@") && len(values) > 0, slices.Contains(values, valueOf(path, value)):
		return "kept"
	case len(values) > 0:
		return "changed"
	}
	name := strings.TrimPrefix(path, "domain/")
	if strings.Count(path, "/") == 1 && strings.Contains(path, "@") {
		name = path
	}
	said := strings.Join(notes, ", ") + ","
	for at := name; at != ""; {
		if strings.Contains(said, " "+seedbed.Clip(at)+",") || slices.Contains(replaced, at) {
			return "said"
		}
		at = at[:max(strings.LastIndexByte(at, '/'), 0)]
	}
	return ""
}

// valueOf is what an attribute gets whose values are not enumerated.
func valueOf(path, value string) string {
	if value == "" && strings.Contains(path, "@") {
		return "1"
	}
	return value
}

// tree is an XML element of any kind.
type tree struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Inner   []*tree    `xml:",any"`
}

// put sets what is at the path, in the first element of each name, and makes what is not there.
func (e *tree) put(path []string, value string) {
	if len(path) == 0 {
		if value != "" {
			e.Text = value
		}
		return
	}
	if attr, ok := strings.CutPrefix(path[0], "@"); ok {
		at := slices.IndexFunc(e.Attrs, func(a xml.Attr) bool { return a.Name.Local == attr })
		if at < 0 {
			e.Attrs, at = append(e.Attrs, xml.Attr{Name: xml.Name{Local: attr}}), len(e.Attrs)
		}
		e.Attrs[at].Value = valueOf(path[0], value)
		return
	}
	at := slices.IndexFunc(e.Inner, func(c *tree) bool { return c.XMLName.Local == path[0] })
	if at < 0 {
		e.Inner, at = append(e.Inner, &tree{XMLName: xml.Name{Local: path[0]}}), len(e.Inner)
	}
	e.Inner[at].put(path[1:], value)
}

// values returns the texts of all elements, or values of all attributes, at the path.
func (e *tree) values(path []string) (all []string) {
	if len(path) == 0 {
		return []string{strings.TrimSpace(e.Text)}
	}
	if attr, ok := strings.CutPrefix(path[0], "@"); ok {
		for _, a := range e.Attrs {
			if a.Name.Local == attr {
				all = append(all, a.Value)
			}
		}
		return all
	}
	for _, c := range e.Inner {
		if c.XMLName.Local == path[0] {
			all = append(all, c.values(path[1:])...)
		}
	}
	return all
}
