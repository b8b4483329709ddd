package worker

import (
	"context"
	"sync"
	"time"

	"seedbed"
)

// poolTime is how long a pool may take to report its room before the report omits it.
const poolTime = 5 * time.Second

// maxProblem is how many bytes of a pool's problem a report has.
const maxProblem = 500

// complainEvery is the time between two log lines about a problem that lasts.
const complainEvery = 10 * time.Minute

// complaint is a problem that reports have found, and when it was logged. The zero value has found none.
type complaint struct {
	mu   sync.Mutex
	last string
	at   time.Time
}

// due reports whether err is to be logged now: it is another one than before, or was not logged for a while.
func (c *complaint) due(err error, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last = ""
		return false
	}
	if text := err.Error(); text != c.last || now.Sub(c.at) >= complainEvery {
		c.last, c.at = text, now
		return true
	}
	return false
}

// report returns the reports of the hypervisor and the pools. A pool that does not answer is
// included with the reason in place of its room, because the node has it nevertheless.
func (s *Server) report(ctx context.Context) (seedbed.NodeReport, error) {
	r, err := s.hypervisor.Report(ctx)
	if err != nil {
		return r, err
	}
	r.PrivilegedScripts, r.Migration, r.Incarnation, r.Boot = s.privileged, s.migration, s.incarnation.admitted(), s.boot
	if s.address != nil {
		r.Address, r.AddressMTU, err = s.address()
		if s.addressless.due(err, time.Now()) {
			s.log.Warn("the address of the node for overlays is not known", "err", err)
		}
	}
	if s.tunnel != nil {
		if r.Tunnel, err = s.tunnel(); err != nil {
			r.Tunnel.Key = seedbed.TunnelKey{}
		}
		if s.keyless.due(err, time.Now()) {
			s.log.Warn("the node encrypts overlays, and its key is not known: the other nodes keep the last one", "err", err)
		}
	}
	if s.leftOut != nil {
		r.LeftOut, err = s.leftOut()
		if s.leftUnknown.due(err, time.Now()) {
			s.log.Warn("which networks the node leaves out is not known", "err", err)
		}
	}
	names := s.poolNames()
	r.Pools = make([]seedbed.PoolInfo, len(names))
	ctx, cancel := context.WithTimeout(ctx, poolTime)
	defer cancel()
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			info, err := s.pools[name].Info(ctx)
			if err != nil {
				s.log.Warn("a pool does not say what room it has", "pool", name, "err", err)
				info.Size, info.Free, info.Problem = 0, 0, seedbed.ClipTo(err.Error(), maxProblem)
			}
			info.Name = name
			r.Pools[i] = info
		})
	}
	group.Wait()
	return r, nil
}
