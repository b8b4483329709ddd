package intake

import (
	"fmt"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"web": 0, "web7": 7, "web15": 15, "web16": 0, "web-0017": 1, "7web": 0, "42": 10, "a" + strings.Repeat("9", 60): 15,
	} {
		if got := number(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func FuzzNumber(f *testing.F) {
	f.Add("web12")
	f.Add("")
	f.Fuzz(func(t *testing.T, name string) {
		n := number(name)
		if n < 0 || n > 15 {
			t.Errorf("%q: %d", name, n)
		}
		if next := number(name + "0"); next != n*10&15 {
			t.Errorf("%q: %d, and with a 0 %d", name, n, next)
		}
		if number(fmt.Sprintf("x%d", n)) != n {
			t.Errorf("%d is not itself", n)
		}
	})
}
