package worker

import "time"

// HurryFleet shortens what a fleet waits for.
func HurryFleet(f *Fleet, look, report time.Duration) { f.pace.look, f.pace.report = look, report }

// Hurry shortens what a server and a client wait for.
func Hurry(s *Server, c *Client, keepalive, grace, silence time.Duration) {
	if s != nil {
		s.keepalive, s.grace = keepalive, grace
	}
	if c != nil {
		c.silence = silence
	}
}
