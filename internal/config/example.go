package config

import _ "embed"

//go:embed example.yaml
var example string

// Example is a configuration file that names every key with a comment and its
// default, all commented out: loading it gives Default. It is what the package
// installs as DefaultPath.
func Example() string { return example }
