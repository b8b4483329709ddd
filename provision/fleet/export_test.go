package fleet

import "time"

// Hurry shortens a fleet's intervals.
func (f *Fleet) Hurry(look, report time.Duration) { f.every.look, f.every.report = look, report }

// Silence is how long the worker may be silent.
func (c *Client) Silence(d time.Duration) { c.silence = d }
