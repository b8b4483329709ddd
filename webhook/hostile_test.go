package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"seedbed"
)

// 18: what a payload says never becomes a path, a command or XML: wherever a text of the sender's
// would name something it is refused, and what the guest alone reads is kept as it is, beside
// everything that has a name.
func TestPitfall18HostileTexts(t *testing.T) {
	t.Parallel()
	i, client := install(t), newClient(t)
	n := 0
	ask := func(request map[string]any) (status int, name string) {
		t.Helper()
		n++
		for member, v := range map[string]any{"action": "create", "name": fmt.Sprint("web", n), "profile": "small"} {
			if _, given := request[member]; !given {
				request[member] = v
			}
		}
		body, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		return i.send(t, client, fmt.Sprint("msg_", n), string(body)).status, fmt.Sprint("web", n)
	}
	param := func(name string, v any) map[string]any {
		return map[string]any{"params": map[string]any{name: v}}
	}
	for _, text := range []string{
		"../../etc/passwd", "/dev/vda", "$(reboot)", "`reboot`", "a;b", "a b", "<name/>", "&x;", "]]>", "'\"", "a\x00b", "a\nb",
		"-rf", "a/b", "a..b", "UPPER", strings.Repeat("a", 64),
	} {
		for place, request := range map[string]map[string]any{
			"name": {"name": text}, "profile": {"profile": text}, "node": {"node": text}, "after": {"after": text},
			"on_failure": {"on_failure": text}, "priority": {"priority": text},
			"vcpus": param("vcpus", text), "memory": param("memory", text), "disk": param("disk", text),
			"datasource": param("datasource", text), "unknown": param("evil", text),
			"the name of a param": param(text, "x"),
		} {
			if status, _ := ask(request); status < 400 || status > 499 {
				t.Errorf("%s %q: %d, want it refused", place, text, status)
			}
		}
		status, name := ask(param("user_data_base64", base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"+text))))
		inst, err := i.db.InstanceByName(t.Context(), seedbed.InDefault(name))
		if status != 202 || err != nil || !bytes.Contains(inst.UserData, []byte(text)) {
			t.Errorf("user_data %q: %d, %v", text, status, err)
			continue
		}
		inst.UserData = nil
		rest, err := json.Marshal(inst)
		quoted, _ := json.Marshal(text)
		if err != nil || bytes.Contains(rest, bytes.Trim(quoted, `"`)) {
			t.Errorf("user_data %q is more than what the guest reads: %s (%v)", text, rest, err)
		}
	}
	if all, err := i.db.Instances(t.Context()); err != nil || len(all) != 17 {
		t.Errorf("%d instances (%v), want one for each text", len(all), err)
	}
}
