package pvc

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDomainInPVCsForm checks what PVC's client relies on: it reads memory as MiB, a topology that
// must be there, and the number of a network in the name of its bridge.
func TestDomainInPVCsForm(t *testing.T) {
	t.Parallel()
	networks := map[string]string{"br7": "100", "seedbed0": "default", "sb-up": "upstream"}
	for name, test := range map[string]struct{ doc, want, viewer string }{
		"memory": {
			"<domain><memory unit='KiB'>1048576</memory><currentMemory unit='KiB'>1048576</currentMemory></domain>",
			"<domain><memory unit='MiB'>1024</memory><currentMemory unit='MiB'>1024</currentMemory>TOPO</domain>", "",
		},
		"memory in MiB": {"<domain><memory unit='MiB'>512</memory></domain>", "<domain><memory unit='MiB'>512</memory>TOPO</domain>", ""},
		"topology": {
			"<domain><cpu mode='custom'><topology sockets='2' cores='1' threads='1'/></cpu></domain>",
			"<domain><cpu mode='custom'><topology sockets='2' cores='1' threads='1'></topology></cpu></domain>",
			"<domain><cpu mode='custom'><topology sockets='2' cores='1' threads='1'></topology></cpu></domain>",
		},
		"CPU without topology": {
			"<domain><cpu mode='host-model'/></domain>",
			"<domain><cpu mode='host-model'><topology sockets='1' cores='3' threads='1'/></cpu></domain>", "",
		},
		"bridges": {
			"<domain><cpu/><devices><interface type='bridge'><source bridge='br7'/></interface>" +
				"<interface type='bridge'><source bridge='sb-up'/></interface>" +
				"<interface type='bridge'><source bridge='eth9'/></interface></devices></domain>",
			"<domain><cpu>TOP</cpu><devices><interface type='bridge'><source bridge='vmbr100'></source></interface>" +
				"<interface type='bridge'><source bridge='brupstream'></source></interface>" +
				"<interface type='bridge'><source bridge='eth9'></source></interface></devices></domain>", "",
		},
		"quotes and letters": {
			`<?xml version="1.0"?><!-- "no" --><domain><cpu/><title>"it's" &lt;é&gt; &amp;</title></domain>`,
			"<domain><cpu>TOP</cpu><title>&#34;it&#39;s&#34; &lt;&#233;&gt; &amp;</title></domain>", "<domain><cpu>TOP</cpu></domain>",
		},
		"passwords": {
			"<domain><cpu/><devices><graphics type='vnc' passwd='x' passwdValidTo='y'/></devices></domain>",
			"<domain><cpu>TOP</cpu><devices><graphics type='vnc'></graphics></devices></domain>",
			"<domain><cpu>TOP</cpu><devices><graphics type='vnc'></graphics></devices></domain>",
		},
		"not for viewers": {
			"<domain xmlns:q='urn:q'><cpu/><metadata><a><b/></a></metadata><devices><disk type='network'><auth username='u'/>" +
				"<source protocol='rbd' name='p/v' index='1'><host name='mon'/></source></disk></devices>" +
				"<q:commandline><q:arg value='x'/></q:commandline></domain>",
			"<domain xmlns:q='urn:q'><cpu>TOP</cpu><metadata><a><b></b></a></metadata><devices><disk type='network'><auth username='u'></auth>" +
				"<source protocol='rbd' name='p/v' index='1'><host name='mon'></host></source></disk></devices>" +
				"<q:commandline><q:arg value='x'></q:arg></q:commandline></domain>",
			"<domain><cpu>TOP</cpu><devices><disk type='network'><source protocol='rbd' name='p/v'></source></disk></devices></domain>",
		},
		"not XML": {"<domain", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := "<topology sockets='1' cores='3' threads='1'/>"
			full := strings.NewReplacer("TOPO", "<cpu>"+top+"</cpu>", "TOP", top)
			p := pvcXML{vcpus: 3, networks: networks}
			got := p.of(test.doc)
			if d := cmp.Diff(full.Replace(test.want), got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got != "" {
				if err := xml.Unmarshal([]byte(got), new(struct{})); err != nil {
					t.Errorf("it is not XML: %v", err)
				}
			}
			p.known = true
			if test.viewer != "" {
				if d := cmp.Diff(full.Replace(test.viewer), p.of(test.doc)); d != "" {
					t.Errorf("for viewers (-want +got):\n%s", d)
				}
			}
		})
	}
}
