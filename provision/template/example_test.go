package template_test

import (
	"fmt"

	"seedbed"
	"seedbed/provision/template"
)

func ExampleTemplate_Fill() {
	scope, err := template.DocumentScope(nil) // nil allows any param
	if err != nil {
		fmt.Println(err)
		return
	}
	doc := template.Header + "\nhostname: ${vm.name}\nheap: $(512 * param.gib)m\nhome: $${HOME}\n"
	t, err := template.Parse(scope, "user_data", []byte(doc))
	if err != nil {
		fmt.Println(err)
		return
	}
	values := template.Values{Guest: seedbed.Guest{Name: "web1"}, Params: map[string]any{"gib": int64(4)}}
	text, err := t.Fill(values, seedbed.MiB)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(text))
	// Output:
	// hostname: web1
	// heap: 2048m
	// home: ${HOME}
}
