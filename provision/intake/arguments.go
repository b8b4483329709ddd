package intake

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"seedbed"
	"seedbed/provision/template"
)

// argumentNames are the names that a script's arguments may read, in addition to param.NAME.
var argumentNames = map[string]template.Type{
	"vm.name": template.String, "vm.number": template.Int, "profile.name": template.String,
	"system.name": template.String, "system.vcpus": template.Int, "system.memory": template.Int,
	"network.name": template.String, "network.nics": template.Int,
	"storage.name": template.String, "storage.disks": template.Int, "storage.size": template.Int,
}

// expanded returns the arguments of a profile's script with their expressions filled in.
func expanded(p seedbed.Profile, fill func(*template.Template) (string, error)) ([]string, error) {
	scope, err := template.FieldScope(p.Params, argumentNames)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, a := range p.Arguments {
		key, text, _ := strings.Cut(a, "=")
		t, err := template.ParseField(scope, "script argument "+seedbed.Clip(key), text)
		if err != nil {
			return nil, err
		}
		if text, err = fill(t); err != nil {
			return nil, err
		}
		all = append(all, key+"="+text)
	}
	return all, nil
}

// checkArguments refuses arguments that are not of the form key=value.
func checkArguments(args []string) error {
	for _, a := range args {
		if key, _, ok := strings.Cut(a, "="); !ok || key == "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "the script argument %q is not usable: expected key=value", seedbed.Clip(a))
		}
	}
	return nil
}

// instead says how to set what params of other profiles do, where a profile takes all params as the
// arguments of its script.
var instead = map[string]string{
	"tags":     "leave out --tag, and use \"seedbed vm tag\" once the instance exists",
	"ssh_keys": "leave out --ssh-key, and put the keys into the profile's user-data",
}

// argumentsOf returns params as the arguments of the script of a profile, sorted by key.
func argumentsOf(profile string, params map[string]any) ([]string, error) {
	args := []string{}
	for key, value := range params {
		text := ""
		switch v := value.(type) {
		case string:
			text = v
		case bool:
			text = strconv.FormatBool(v)
		case json.Number:
			text = v.String()
		case float64:
			text = strconv.FormatFloat(v, 'f', -1, 64)
		case int64, int, uint64:
			text = fmt.Sprint(v)
		default:
			return nil, seedbed.Errorf(seedbed.ErrInvalid,
				"param %s: profile %s declares no params, so they are its script's arguments, which are texts, numbers or booleans: %s",
				seedbed.Clip(key), profile, cmp.Or(instead[key], "expected one of those"))
		}
		args = append(args, key+"="+text)
	}
	slices.Sort(args)
	return args, nil
}
