package template_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/template"
)

func values() template.Values {
	return template.Values{
		Guest: seedbed.Guest{
			ID: "ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab", Name: "web12", Profile: "web", Image: "debian", Node: "hv1",
			VCPUs: 2, Memory: seedbed.GiB, Region: "seedbed", Zone: "seedbed-local", Tags: map[string]string{"role": "db", "a-b": "c"},
			NICs: []seedbed.GuestNIC{{MAC: seedbed.MAC{0x52, 0x54, 0, 1, 2, 0xff}, Network: "default", Addr: netip.MustParseAddr("10.9.0.7")}},
		},
		Params: map[string]any{"port": int64(80), "motd": "say \"${vm.name}\"\n$(1+1)", "on": true, "a-b": "dash"},
	}
}

// open is the scope of documents whose profile declares no params.
var open = func() *template.Scope {
	s, err := template.DocumentScope(nil)
	if err != nil {
		panic(err)
	}
	return s
}()

func fill(doc string) (string, error) {
	t, err := template.Parse(open, "user_data", []byte(doc))
	if err != nil {
		return "", err
	}
	out, err := t.Fill(values(), seedbed.MiB)
	return string(out), err
}

func TestFill(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, want string }{
		{"empty", "", ""},
		{"nothing to fill in", "#cloud-config\nhostname: x\n", "#cloud-config\nhostname: x\n"},
		{
			"references", "${vm.name} ${vm.uuid} ${vm.profile} ${vm.image} ${vm.node} ${vm.network}",
			"web12 ec2f1c5e-7b1a-4c3d-9e8f-0123456789ab web debian hv1 default",
		},
		{"instance-id", "${vm.id}", "i-d9e8f0123456789ab"},
		{"addresses", "${vm.mac} ${vm.ip}", "52:54:00:01:02:ff 10.9.0.7"},
		{"place", "${region}/${zone}", "seedbed/seedbed-local"},
		{"numbers", "${vm.number} ${vm.vcpus} ${vm.memory}", "12 2 1073741824"},
		{"arithmetic", "$(vm.number * 10 + 5) $((1 + 2) * 3) $(7 / 2) $(-7 % 3)", "125 9 3 -1"},
		{"references in arithmetic", `$(1024 * ${param.port} + $(${vm.number} - 2)) ${"${x}" + '$('}`, "81930 ${x}$("},
		{"profile", "${profile.name} ${profile.network} $(profile.memory / 1024)", "web default 1048576"},
		{"params", "${param.port} ${param.on} $(param.port + 1)", "80 true 81"},
		{"params by index", `${param["a-b"]} ${tag["a-b"]}`, "dash c"},
		{"tags", "${tag.role}", "db"},
		{"functions", `${upper(vm.name)} ${lower("ABC")} ${base64(tag.role)} ${json(param.motd)}`, `WEB12 abc ZGI= "say \"${vm.name}\"\n$(1+1)"`},
		{"a value is text", "${param.motd}", "say \"${vm.name}\"\n$(1+1)"},
		{"choice", `${has(param.none) ? param.none : "x"} ${vm.number > 10 ? "big" : "small"}`, "x big"},
		{"brackets in strings", `${"}" + ')' + "\"]"}`, `})"]`},
		{"escapes", "$${HOME} $$(date) $$$${x}", "${HOME} $(date) $$${x}"},
		{"other dollars", "$HOME $ $$ $1 ${vm.name}$", "$HOME $ $$ $1 web12$"},
		{"text around", "ä${vm.name}ö\r\n", "äweb12ö\r\n"},
		{"binary", "\x00\xff${vm.name}\xfe", "\x00\xffweb12\xfe"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := fill(template.Header + "\n" + tt.body)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, want string }{
		{"shell variable", "#!/bin/sh\necho ${HOME}\n", `user_data line 3, column 6: ${HOME} reads HOME, which is unknown`},
		{"escape is shown", "${HOME}", "for the guest to see ${ as it is, write $${"},
		{"command", "a\n$(date +%s)", "line 3, column 1: $(date +%s) is not an expression; for the guest to see $( as it is, write $$("},
		{"one word", "$(hostname)", "reads hostname, which is unknown"},
		{"default value", "${X:-y}", "${X:-y} is not an expression"},
		{"length", "${#X}", "is not an expression"},
		{"columns are characters", "äö ${nope}", "line 2, column 4"},
		{"unknown field", "${vm.nam}", "reads vm.nam, which is unknown: expected param.NAME, profile.disk, "},
		{"too deep", "${vm.name.first}", "reads vm.name.first"},
		{"unknown in a call", "${lower(nope)}", "reads nope"},
		{"unknown function", "${lowest(vm.name)}", "is not a valid expression"},
		{"whole map", "${param}", "reads param"},
		{"loop", "${[1].all(x, x > 0)}", "unknown"},
		{"empty", "${ }", "is empty"},
		{"no end", "${vm.name\n}", "has no end on its line"},
		{"no end of string", `${"x}`, "has no end on its line"},
		{"mixed brackets", "${(]}", "has no end on its line"},
		{"text in arithmetic", "$(vm.name)", "gives string: expected an integer"},
		{"list", "${[1]}", "expected a string"},
		{"wrong types", "${vm.name + 1}", "is not a valid expression"},
		{"missing param", "x\n${param.none}", "user_data line 3, column 1: ${param.none} has no value: no such key: none"},
		{"missing tag", "${tag.none}", "no such key: none"},
		{"param is no number", "$(param.motd)", "gives string: expected an integer"},
		{"division by zero", "$(1 / 0)", "division by zero"},
		{"overflow", "$(9223372036854775807 + 1)", "overflow"},
		{"long", "${" + strings.Repeat(" ", 600) + "vm.name}", "has no end on its line"},
		{"too many", strings.Repeat("${vm.name}", 2001), "more than 2000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := fill(template.Header + "\n" + tt.body)
			if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want one that says %q", err, tt.want)
			}
		})
	}
}

func TestIs(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]bool{
		"## template: seedbed": true, "## template: seedbed\n": true, "## template: seedbed \r\n#!/bin/sh\n": true,
		"": false, "\n## template: seedbed\n": false, " ## template: seedbed\n": false,
		"## template: jinja\n": false, "## template: seedbedd\n": false,
	} {
		if got := template.Is([]byte(doc)); got != want {
			t.Errorf("%q: %v", doc, got)
		}
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	doc, err := template.Parse(open, "user_data", []byte(template.Header+"\n"+strings.Repeat("${param.motd}", 100)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := doc.Fill(values(), 100); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("filled in: %v", err)
	}
	if !doc.Reads("motd") || doc.Reads("port") {
		t.Error("does not know the params that it reads")
	}
}

// FuzzTemplate holds that no document breaks the parser, and that whatever text
// is escaped, or given as a value, comes out byte for byte.
func FuzzTemplate(f *testing.F) {
	f.Add("#cloud-config\nhostname: ${vm.name}\n")
	f.Add("$(1 + param.port) $${x} $$$( ${param[\"x\"]} ${\"}\"}")
	f.Fuzz(func(t *testing.T, text string) {
		if out, err := fill(template.Header + "\n" + text); err != nil && !errors.Is(err, seedbed.ErrInvalid) {
			t.Fatalf("%q: %q, %v", text, out, err)
		}
		escaped := strings.NewReplacer("${", "$${", "$(", "$$(").Replace(text)
		if out, err := fill(template.Header + "\n" + escaped); err != nil || out != text {
			t.Fatalf("%q escaped as %q came out as %q (%v)", text, escaped, out, err)
		}
		doc, err := template.Parse(open, "user_data", []byte(template.Header+"\n<${param.text}>"))
		if err != nil {
			t.Fatal(err)
		}
		v := values()
		v.Params["text"] = text
		if out, err := doc.Fill(v, seedbed.MiB); err != nil || string(out) != "<"+text+">" {
			t.Fatalf("%q as a value came out as %q (%v)", text, out, err)
		}
	})
}
