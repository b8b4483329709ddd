package worker

import (
	"context"
	"sync"
	"time"

	"seedbed"
)

// poolTime is how long a pool may take to say what room it has before the
// report goes without that.
const poolTime = 5 * time.Second

// report is what the hypervisor and the pools say. A pool that does not answer is
// in it without its room: the node has it even so.
func (s *Server) report(ctx context.Context) (seedbed.NodeReport, error) {
	r, err := s.hypervisor.Report(ctx)
	if err != nil {
		return r, err
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
				info.Size, info.Free = 0, 0
			}
			info.Name = name
			r.Pools[i] = info
		})
	}
	group.Wait()
	return r, nil
}
