package fleet

import "time"

// Hurry shortens what a fleet waits for.
func (f *Fleet) Hurry(look, report time.Duration) { f.every.look, f.every.report = look, report }

// Silence is how long the worker may be silent.
func (c *Client) Silence(d time.Duration) { c.silence = d }
