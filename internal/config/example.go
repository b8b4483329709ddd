package config

import _ "embed"

//go:embed example.yaml
var example string

// Example returns a configuration file that names every key with a comment and its default. All
// keys are commented out, so that loading it gives Default. The package installs it as DefaultPath.
func Example() string { return example }
