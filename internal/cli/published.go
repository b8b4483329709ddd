package cli

import "seedbed"

// PublishedTo returns to which projects an object is published, for people; nothing if the caller may not
// learn that.
func PublishedTo(to *seedbed.Publication) string {
	if to == nil {
		return ""
	}
	return to.String()
}
