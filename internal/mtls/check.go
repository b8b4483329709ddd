package mtls

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"seedbed"
)

// soon is how long before a certificate's expiry the checks mention it.
const soon = 30 * 24 * time.Hour

// Checks reports until when this program's certificate is valid for the other hosts. An expired
// certificate is a problem; from 30 days before its expiry there is a hint.
func (i *Identity) Checks(context.Context) []seedbed.Check {
	return []seedbed.Check{expiry(i.files.Name, i.files.Cert, i.held.Now().ends, time.Now())}
}

// CheckFiles is like Checks for files of this host that may belong to another user. It needs no
// key, and checks only dates.
func CheckFiles(name, ca, cert string) seedbed.Check {
	problem := func(err error) seedbed.Check {
		return seedbed.Check{Name: name, Detail: err.Error(), Hint: "see docs/how-to/cluster.md"}
	}
	var ends time.Time
	for n, file := range []string{cert, ca} {
		text, err := readFile(file, false)
		if errors.Is(err, fs.ErrPermission) { // the daemon may read it; this user does not need to
			return seedbed.Check{Name: name, OK: true, Detail: file + " is there; this user may not read it"}
		}
		if err != nil {
			return problem(err)
		}
		all, err := certificates(file, text)
		if err != nil {
			return problem(err)
		}
		last := all[0].NotAfter
		for _, c := range all { // any of several authorities suffices
			if n == 1 && c.NotAfter.After(last) {
				last = c.NotAfter
			}
		}
		if ends.IsZero() || last.Before(ends) {
			ends = last
		}
	}
	return expiry(name, cert, ends, time.Now())
}

func expiry(name, file string, ends, now time.Time) seedbed.Check {
	c := seedbed.Check{Name: name, OK: true, Detail: fmt.Sprintf("%s is good until %s", file, ends.UTC().Format(time.RFC3339))}
	const renew = "issue it again with \"seedbed cluster issue\"; the daemons read it by themselves"
	switch left := ends.Sub(now); {
	case left <= 0:
		c.OK, c.Hint = false, renew
		c.Detail = fmt.Sprintf("%s or its issuer's certificate expired on %s: the other hosts refuse it", file, ends.UTC().Format(time.RFC3339))
	case left < soon:
		c.Detail += fmt.Sprintf(", in %d days", int(left/(24*time.Hour)))
		c.Hint = renew
	}
	return c
}
