package fleet

import "time"

// Hurry shortens a fleet's intervals, but gives each worker a minute for an answer.
func (f *Fleet) Hurry(look, report time.Duration) {
	f.every.look, f.every.report, f.every.ask = look, report, time.Minute
}

// Silence is how long the worker may be silent.
func (c *Client) Silence(d time.Duration) { c.silence = d }

// Patient is Silence that also gives a worker that long to answer a call whose time is over.
func (c *Client) Patient(d time.Duration) { c.silence, c.grace = d, d }
