package webhook

import (
	"fmt"

	"seedbed/internal/httpserve"
)

// attemptHeaders are the headers of an attempt, each of which must come once.
var attemptHeaders = []string{HeaderID, HeaderTimestamp, HeaderSignature}

// attemptOf reads the webhook headers, each of which must be there.
func attemptOf(f httpserve.Fields) (attempt, error) {
	for _, name := range attemptHeaders {
		if !f.Has(name) {
			return attempt{}, fmt.Errorf("header %s is missing", name)
		}
	}
	return parseAttempt(f.Get(HeaderID), f.Get(HeaderTimestamp), f.Get(HeaderSignature))
}
