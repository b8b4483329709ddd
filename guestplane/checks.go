package guestplane

import (
	"fmt"

	"seedbed"
	"seedbed/feed"
)

// FeedChecks report whether seedbedd answers, and whether the applied revision is acknowledged.
func FeedChecks(s feed.Status) []seedbed.Check {
	check := seedbed.Check{Name: "feed", OK: s.Connected, Detail: s.Problem}
	switch {
	case s.Connected:
		check.Detail = fmt.Sprintf("seedbedd answers; revision %d with %d instance(s) is applied", s.Revision, s.Guests)
	case check.Detail == "":
		check.Detail = "seedbedd has not answered yet"
	}
	if !s.Connected {
		check.Hint = "guests are served from the last feed; start seedbedd"
	}
	if s.Held == "" {
		return []seedbed.Check{check}
	}
	return []seedbed.Check{check, {Name: "acknowledgement", Detail: s.Held,
		Hint: "jobs on this node wait until that instance's job is undone: " +
			"give the network another bridge name, or remove the interface that uses it"}}
}

// SpoolChecks report that events of guests were lost since the start. There is no line if none was.
// state is the directory of the spool.
func SpoolChecks(s feed.SpoolStats, state string) []seedbed.Check {
	if s.Lost == 0 && s.Dropped == 0 {
		return nil
	}
	return []seedbed.Check{{Name: "guest events", OK: true,
		Detail: fmt.Sprintf("%d events of guests, and %s of those on disk, were lost since the start of seedbed-metadata; "+
			"access records are the first to go", s.Lost, s.Dropped),
		Hint: "see that " + state + " has room, and that seedbedd can be reached; the log has the times"}}
}
