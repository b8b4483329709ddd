package webhook

import (
	"context"

	"golang.org/x/sys/unix"

	"seedbed"
)

// CheckClock reports whether the kernel calls this host's clock synchronised (adjtimex(2)). The
// tolerance of hooks does not change if it is not. A wrong clock makes hooks refuse valid
// deliveries, so the check makes that visible.
func CheckClock(context.Context) []seedbed.Check {
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	return []seedbed.Check{clockCheck(t.Status, err)}
}

func clockCheck(status int32, err error) seedbed.Check {
	c := seedbed.Check{Name: "clock", OK: true, Detail: "synchronised"}
	switch {
	case err != nil:
		c.Detail = "not known: " + err.Error()
	case status&unix.STA_UNSYNC != 0:
		c.OK, c.Detail = false, "not synchronised: webhooks whose time stamps seem too old or too new are refused"
		c.Hint = "run an NTP client, such as systemd-timesyncd or chrony"
	}
	return c
}
