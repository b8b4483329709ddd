//go:build integration

package sandbox

// escapesHere are the attempts that this processor alone offers.
func escapesHere(func(...string) string) []struct{ name, script, want string } { return nil }
